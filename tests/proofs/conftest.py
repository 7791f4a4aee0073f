"""Which scenarios and which of their cases are run: all of them, or a part, always the same one."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.proofs.scenarios import LANGUAGES, SCENARIOS

T = TypeVar("T")
Choose = Callable[[list[T]], list[T]]
_FEW, _STRIDE = 2, 7919
"""How many cases of each kind the normal test command runs, and how far they lie apart: a prime, so no two are one."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each scenario in both languages; a part of the cases takes them in turns."""
    if {"name", "language"} <= set(metafunc.fixturenames):
        every = [(name, language) for name in SCENARIOS for language in LANGUAGES]
        offset = zlib.crc32(metafunc.definition.nodeid.encode())
        odd = [(name, LANGUAGES[(offset + at) % len(LANGUAGES)]) for at, name in enumerate(SCENARIOS)]
        metafunc.parametrize(("name", "language"), every if metafunc.config.getoption("--exhaustive") else odd)


@pytest.fixture
def some(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Callable[[list[T]], list[T]]:
    """Chooses which of many cases a test runs, and counts them."""

    def choose(cases: list[T]) -> list[T]:
        few = range(min(_FEW, len(cases)))
        offset = zlib.crc32(request.node.nodeid.encode())
        part = [cases[(offset + at * _STRIDE) % len(cases)] for at in few]
        chosen = cases if request.config.getoption("--exhaustive") else part
        record_property("cases", len(chosen))
        return chosen

    return choose
