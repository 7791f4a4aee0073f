"""Writes into docs/guarantees.md how many cases the tests counted that show each promise."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "guarantees.md"
EXHAUSTIVE = "proofs/"
"""Tests of this folder run all of their cases only when they are told to."""

_ROW = re.compile(r"^\| (?P<promise>.+ \| .+) \| (?P<tests>(?:`[^`]+`(?:, )?)+) \| (?P<cases>[\d,]*) \|$")


@dataclass(frozen=True)
class Row:
    """A line of the page's table."""

    promise: str
    tests: tuple[str, ...]
    cases: int

    def __str__(self) -> str:
        return f"| {self.promise} | {', '.join(f'`{test}`' for test in self.tests)} | {self.cases:,} |"

    def counted(self, counts: dict[str, int], *, exhaustive: bool) -> Row:
        """The row with its cases counted anew, where all of its tests ran as they should."""
        found = [[cases for test, cases in counts.items() if _is_of(test, named)] for named in self.tests]
        if not all(found) or (not exhaustive and any(test.startswith(EXHAUSTIVE) for test in self.tests)):
            return self
        return Row(self.promise, self.tests, sum(map(sum, found)))


def rows(text: str) -> list[Row]:
    """The rows of the page's table."""
    return [row for row in map(_row, text.splitlines()) if row is not None]


def recounted(text: str, counts: dict[str, int], *, exhaustive: bool) -> str:
    """The page with its cases counted anew. `counts` are the cases of each test that passed, by its full name."""
    return "".join(_recounted(text.splitlines(), counts, exhaustive=exhaustive))


def _recounted(lines: Iterable[str], counts: dict[str, int], *, exhaustive: bool) -> Iterable[str]:
    for line in lines:
        row = _row(line)
        yield f"{line if row is None else row.counted(counts, exhaustive=exhaustive)}\n"


def _row(line: str) -> Row | None:
    found = _ROW.match(line)
    if found is None:
        return None
    tests = tuple(re.findall(r"`([^`]+)`", found["tests"]))
    return Row(found["promise"], tests, int(found["cases"].replace(",", "") or 0))


def _is_of(test: str, named: str) -> bool:
    return re.match(rf"tests/{re.escape(named)}($|\[|::)", test) is not None
