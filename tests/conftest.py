"""Fixtures for every test, and hypothesis without a clock: a slow machine is no fault."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

from tests import guarantees
from tests.support import Project

T = TypeVar("T")
_FEW, _STRIDE = 2, 7919
"""How many cases of each kind the normal test command runs, and how far they lie apart: a prime, so no two are one."""

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--exhaustive", action="store_true", help="break every command in every way, not only in some")
    parser.addoption("--count", action="store_true", help="write the numbers of cases into docs/guarantees.md")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--count") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Counter(config))


class _Counter:
    """Counts the cases of each test that passes: those that it counted itself, else one."""

    def __init__(self, config: pytest.Config) -> None:
        self._counts: dict[str, int] = {}
        self._exhaustive = bool(config.getoption("--exhaustive"))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._counts[report.nodeid] = int(str(dict(report.user_properties).get("cases", 1)))

    def pytest_sessionfinish(self) -> None:
        text = guarantees.PAGE.read_text(encoding="utf-8")
        counted = guarantees.recounted(text, self._counts, exhaustive=self._exhaustive)
        guarantees.PAGE.write_text(counted, encoding="utf-8")


@pytest.fixture
def some(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Callable[[list[T]], list[T]]:
    """Chooses which of many cases a test runs, always the same ones, and counts them: all of them, or a few."""
    exhaustive = request.config.getoption("--exhaustive")

    def choose(cases: list[T]) -> list[T]:
        offset = zlib.crc32(request.node.nodeid.encode())
        chosen = (
            cases if exhaustive else [cases[(offset + n * _STRIDE) % len(cases)] for n in range(min(_FEW, len(cases)))]
        )
        record_property("cases", len(chosen))
        return chosen

    return choose


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose agent sleeps once."""
    return Project(tmp_path / "project")
