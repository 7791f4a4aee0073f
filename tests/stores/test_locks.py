"""Kernel locks, with a real second process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from cruft_sched.errors import BusyError, StorageError
from cruft_sched.stores import disk, locks

HOLDER = """
import sys
from cruft_sched.stores import locks
with locks.hold(sys.argv[1], "busy"):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def test_one_holder_at_a_time_and_a_lock_dies_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path) as process:
        with pytest.raises(BusyError, match="it is being advanced"), locks.hold(str(path), "it is being advanced"):
            pass
        process.kill()
        process.wait()
        with locks.hold(str(path), "busy"):
            assert path.exists()
    assert path.exists()


def test_it_waits_as_long_as_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path) as process, locks_waiting(path, process):
        assert process.wait(timeout=30) == 0


def locks_waiting(path: Path, process: subprocess.Popen[bytes]) -> AbstractContextManager[Callable[[], bool]]:
    assert process.stdin is not None
    process.stdin.close()
    return locks.hold(str(path), "busy", wait_s=30)


def test_the_locked_file_must_be_the_one_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    real, calls = disk.lock, 0

    def replaced_meanwhile(fd: int) -> bool:
        nonlocal calls
        calls += 1
        if calls == 1:  # somebody deletes the job and starts it again between the open and the lock
            path.unlink()
            path.touch()
        return real(fd)

    monkeypatch.setattr(disk, "lock", replaced_meanwhile)
    with locks.hold(str(path), "busy"):
        assert calls == 2


def test_a_file_system_without_locks_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(_fd: int) -> bool:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(disk, "lock", no_locks)
    with pytest.raises(StorageError, match="gives no lock") as error, locks.hold(str(tmp_path / "lock"), "busy"):
        pass
    assert error.value.exit_code == 74


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with locks.hold(str(tmp_path / "lock"), "busy"):
            pass
    assert len(os.listdir("/proc/self/fd")) == before
