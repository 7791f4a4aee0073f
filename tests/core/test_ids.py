"""Ids."""

from __future__ import annotations

import pytest

from cruft_sched.core.ids import check_job_id, new_job_id
from cruft_sched.errors import UsageError

HOSTILE = [
    "",
    ".",
    "..",
    "a/b",
    "../x",
    "/etc",
    "a\\b",
    "a b",
    "a\n",
    "\0",
    "é",
    "x" * 129,
    "a%2e",
    "-\u202e",
    "~",
    "*",
    "$(id)",
]


@pytest.mark.parametrize("job_id", ["a", "A.b_c:d-e", "...", "-x", "x" * 128, "0"])
def test_well_formed(job_id: str) -> None:
    assert check_job_id(job_id) == job_id


@pytest.mark.parametrize("job_id", HOSTILE)
def test_hostile(job_id: str) -> None:
    with pytest.raises(UsageError) as refusal:
        check_job_id(job_id)
    assert refusal.value.exit_code == 64
    assert str(refusal.value).isprintable()
    assert str(refusal.value).isascii()


def test_two_starts_of_one_policy_get_two_ids() -> None:
    first, second = new_job_id("p", "a", b"1"), new_job_id("p", "a", b"2")
    assert first != second
    assert check_job_id(first).startswith("job-")
