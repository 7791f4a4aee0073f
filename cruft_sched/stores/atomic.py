"""The one durable write: beside the target, fsynced, moved in place, and the folder fsynced.

No reader sees half a file. When anything fails, the old file stands as it was.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from cruft_sched.stores import disk

TEMPORARY_SUFFIX = ".tmp"


def replace(path: str, data: bytes, aside: str | None = None) -> None:
    """Put `data` in the place of `path`, durably. Raises OSError, and then the old file stands.

    The temporary stands beside the target, or in the folder `aside` of the same file system.
    """
    temporary = _write_aside(path, data, aside)
    try:
        disk.rename(temporary, path)
    except OSError:
        _discard(temporary)
        raise
    disk.fsync_folder(os.path.dirname(path))


def create(path: str, data: bytes) -> None:
    """Make `path`, whole or not at all. Raises FileExistsError where it stands already: the first of two wins."""
    temporary = _write_aside(path, data)
    try:
        disk.link(temporary, path)
    finally:
        _discard(temporary)
    disk.fsync_folder(os.path.dirname(path))


def make_folder(path: str) -> None:
    """Make a folder (0700) and the missing ones above it, durably."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        try:
            disk.mkdir(folder, 0o700)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise
        disk.fsync_folder(os.path.dirname(folder))


def read_file(path: str, max_bytes: int) -> bytes:
    """The bytes of a regular file that is no link. Raises OSError, ValueError where it is something else."""
    fd = disk.open_file(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{path} is not a regular file")
        if found.st_size > max_bytes:
            raise ValueError(f"{path} is {found.st_size} bytes long, and {max_bytes} are allowed")
        return _read_all(fd, found.st_size)
    finally:
        os.close(fd)


def sweep(folder: str, of: str = "") -> None:
    """Remove what an interrupted write left in a folder, or of the file called `of` alone. The caller holds the lock
    that its writers take."""
    for name in leavings(folder, of):
        _discard(os.path.join(folder, name))


def leavings(folder: str, of: str = "") -> list[str]:
    """The names of what writes in a folder have begun, or left there."""
    start = f".{of}." if of else "."
    return [name for name in os.listdir(folder) if name.startswith(start) and name.endswith(TEMPORARY_SUFFIX)]


def write_all(fd: int, data: bytes) -> None:
    """Write every byte: the system may take fewer at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[disk.write(fd, rest) :]


def _write_aside(path: str, data: bytes, aside: str | None = None) -> str:
    folder, name = os.path.split(path)
    temporary = os.path.join(aside or folder, f".{name}.{os.urandom(8).hex()}{TEMPORARY_SUFFIX}")
    fd = disk.open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            write_all(fd, data)
            disk.fsync(fd)
        finally:
            os.close(fd)
    except OSError:
        _discard(temporary)
        raise
    return temporary


def _read_all(fd: int, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := disk.read(fd, size - len(data))):
        data += more
    return data


def _discard(path: str) -> None:
    """Remove a temporary. One that cannot be removed is harmless, and the next sweep tries again."""
    with suppress(OSError):
        disk.unlink(path)
