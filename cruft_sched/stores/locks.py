"""Kernel locks. They die with their holder, so none is ever stale; a lock that cannot be had is an error."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from cruft_sched.errors import BusyError, StorageError
from cruft_sched.stores import disk

_POLL_S = 0.01
_NO_LOCKS = frozenset((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL))


@contextmanager
def hold(path: str, busy: str, wait_s: float = 0.0) -> Iterator[Callable[[], bool]]:
    """Hold the lock on the file `path`, made if it is missing, for the length of a `with` block. What the block gets
    tells whether the file is still the one in place: without it, the lock protects nothing.

    Raises BusyError, whose sentence is `busy`, where another process still holds it after `wait_s` seconds;
    OSError where the file cannot be opened.
    """
    give_up = time.monotonic() + wait_s
    while True:
        fd = disk.open_file(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if not _take(fd, path):
                if time.monotonic() >= give_up:
                    raise BusyError(busy, "try again when it is done")
                time.sleep(_POLL_S)
            elif _in_place(fd, path):
                yield partial(_in_place, fd, path)
                return
        finally:
            os.close(fd)


def _take(fd: int, path: str) -> bool:
    try:
        return disk.lock(fd)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        raise StorageError(
            f"the file system of {path} gives no lock ({error.strerror or error})", "move it to one that has flock"
        ) from None


def _in_place(fd: int, path: str) -> bool:
    """Whether the locked file is still the one at `path`: a job may have been deleted and started again."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
