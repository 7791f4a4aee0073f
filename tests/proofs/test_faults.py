"""Let each operation on the disk fail in each way; then go on with fresh processes."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.proofs.scenarios import SCENARIOS, SWEEP
from tests.proofs.world import Done, World, zygote

ERRORS = {
    "javascript": (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES, errno.EMFILE),
    "python": (errno.ENOSPC, errno.EIO),  # the language makes no other operations; so these are samples
}
SAID = {
    errno.ENOSPC: ("No space left on device", "make room"),
    errno.EIO: ("Input/output error", "mend the disk"),
    errno.EDQUOT: ("Disk quota exceeded", "make room"),
    errno.EACCES: ("Permission denied", "check its permissions"),
    errno.EMFILE: ("Too many open files", "raise the limit on open files"),
}
UNREADABLE = ("cannot be read; ", 65)
"""What is said of a bound file that may not be read: that is no fault of the disk."""


def ways(operations: list[str], errors: tuple[int, ...]) -> list[dict[str, Any]]:
    """Every way in which one of these operations, or the disk from one of them on, can fail."""
    numbers = range(len(operations))
    writes = [number for number in numbers if operations[number] == "write"]
    return [
        *({"what": "fail", "number": number, "code": code} for number in numbers for code in errors),
        *({"what": "fail", "number": number, "code": errno.ENOSPC, "lasting": True} for number in numbers),
        *({"what": "torn", "number": number, "code": errno.ENOSPC} for number in writes),
        *({"what": "short", "number": number} for number in writes),
    ]


def test_a_fault_at_every_operation(
    name: str, language: str, tmp_path: Path, some: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> None:
    scenario = SCENARIOS[name]
    with zygote() as forked:
        world = World(tmp_path, scenario, language, forked)
        undisturbed = world.attack()
        for fault in some(ways(undisturbed.operations, ERRORS[language])):
            done = world.attack(fault)
            if scenario.command == SWEEP and done.code == 0:
                check_sentences(done, fault)
            elif done.code != undisturbed.code:
                assert done.out == "", (fault, done)
                check_code(done, fault)
                assert done.err.count("\n") == 1, (fault, done)
                check_sentences(done, fault)
            jobs = world.finish()
            if not fault.get("lasting"):
                assert all(job.interruptions == 0 for job in jobs if job.status == "completed")
            world.check(jobs)


def check_code(done: Done, fault: dict[str, Any]) -> None:
    unreadable = fault["code"] == errno.EACCES and UNREADABLE[0] in done.err
    assert done.code == (UNREADABLE[1] if unreadable else 74), (fault, done)


def check_sentences(done: Done, fault: dict[str, Any], command: str = "cruft agent schedule ") -> None:
    """Every line says what happened and what to do next, and none that it was a bug."""
    for line in done.err.splitlines():
        assert line.startswith(command), (fault, done)
        if UNREADABLE[0] not in line:
            happened, todo = SAID[fault["code"]]
            assert happened in line, (fault, done)
            assert todo in line, (fault, done)
