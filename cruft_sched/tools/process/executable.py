"""A program's file: held open, so that what is hashed is what runs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from blake3 import blake3

from cruft_sched.errors import ChangedError, DataError, StorageError, remedy
from cruft_sched.tools.process.wire import same_file

MAX_BYTES = 256 << 20
_CHUNK = 1 << 20


@contextmanager
def opened_program(path: str) -> Iterator[int]:
    """A descriptor of the program. Raises DataError where it is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a FIFO is not waited for
    except OSError as error:
        raise DataError(f"program {path} cannot be read: {error.strerror}", "check the path") from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
            raise DataError(f"program {path} is larger than 256 MiB, or no file", "name another one")
        if not found.st_mode & 0o111:
            raise DataError(f"program {path} is not executable", "make it so, or name another one")
        yield fd
    finally:
        os.close(fd)


def check_program(fd: int, path: str, expected: str) -> dict[str, int]:
    """What tells this file, as it was when it had this hash, from any other. Raises ChangedError, StorageError."""
    before = same_file(os.fstat(fd))
    hashed, at = blake3(), 0
    try:
        while piece := os.pread(fd, _CHUNK, at):
            hashed.update(piece)
            at += len(piece)
    except OSError as error:
        raise StorageError(f"cannot read program {path}: {error.strerror or error}", remedy(error)) from error
    after = same_file(os.fstat(fd))
    if before != after or expected != f"blake3:{hashed.hexdigest()}":
        raise ChangedError(f"program {path} is not the one that was checked", "check it, and start anew")
    return after


def is_script(fd: int) -> bool:
    """Whether the kernel starts an interpreter for it, which opens it by its path."""
    return os.pread(fd, 2, 0) == b"#!"
