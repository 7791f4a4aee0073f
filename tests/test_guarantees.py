"""docs/guarantees.md names tests that there are, and each has counted its cases."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.guarantees import PAGE, Row, recounted, rows

TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("row", rows(TEXT), ids=lambda row: row.promise[:60])
def test_a_promise_has_its_tests(row: Row) -> None:
    assert row.cases > 0
    for test in row.tests:
        file, *names = test.split("::")
        source = (Path(__file__).parent / file).read_text(encoding="utf-8")
        for name in names:
            assert re.search(rf"(def|class) {re.escape(name)}\b", source), test


def test_every_line_of_the_table_is_a_row() -> None:
    lines = [line for line in TEXT.splitlines() if line.startswith("| ")]
    assert len(rows(TEXT)) == len(lines) - 1  # its head


def test_cases_are_counted_anew() -> None:
    page = "# x\n\n| a | b | `c/d.py::e`, `f.py` | 1 |\n| g | h | `proofs/i.py` | 2,000 |\n"
    counts = {"tests/c/d.py::e[1]": 3, "tests/c/d.py::e": 4, "tests/c/d.py::eg": 5, "tests/f.py::x": 6}
    assert recounted(page, counts, exhaustive=False).splitlines()[2] == "| a | b | `c/d.py::e`, `f.py` | 13 |"
    assert recounted(page, {"tests/f.py::x": 1}, exhaustive=True) == page  # a part of them is not counted
    more = {"tests/proofs/i.py::j": 7}
    assert recounted(page, more, exhaustive=False) == page
    assert "| 7 |" in recounted(page, more, exhaustive=True)
