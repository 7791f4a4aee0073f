"""The seam: everything the stores do to the disk goes through the names in OPERATIONS.

They are the system's own functions, so the seam costs nothing. A test replaces them, one and all, with functions
that count, and so can number the operations of a command, make the n-th one fail, or stop the process there.
"""

from __future__ import annotations

import os

OPERATIONS = (
    "open_file",
    "read",
    "write",
    "fsync",
    "rename",
    "link",
    "unlink",
    "mkdir",
    "fsync_folder",
    "lock",
    "truncate",
)

open_file = os.open
read = os.read
write = os.write
fsync = os.fsync
rename = os.replace
link = os.link
unlink = os.unlink
mkdir = os.mkdir
truncate = os.ftruncate


def fsync_folder(path: str) -> None:
    """Make the entries of a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def lock(fd: int) -> bool:
    """Take the kernel's exclusive lock on an open file, if it is free. It dies with its holder."""
    from filelock import lock_descriptor  # imported here: it costs more than a tick that has nothing to do

    return lock_descriptor(fd, blocking=False)


def unlock(fd: int) -> None:
    """Give the lock back. It changes nothing on the disk, so it is not in OPERATIONS."""
    from filelock import unlock_descriptor

    unlock_descriptor(fd)
