"""What of the disk a tool may touch: the policy's roots, and what is out of reach within them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from msgspec import Struct

from cruft_sched.core.awaits import WaitError, denied
from cruft_sched.core.policy import Isolation
from cruft_sched.tools.globs import matches

MAX_PATH_CHARS = 4096
_MAX_NAME_BYTES = 255


class Program(Struct, frozen=True, kw_only=True):
    """A program that may be run: where it lies, the hash that it must have, and the globs that each of its arguments
    must be of one of (None: any)."""

    path: str
    hash: str
    args: tuple[str, ...] | None = None


class Programs(Struct, frozen=True, kw_only=True):
    """What the tool `process` may run, by name, in which folder and with which environment, and what of its output is
    kept (bytes). `shut` are the files and folders that are out of reach of it all."""

    by_name: dict[str, Program] = {}
    folder: str = "/"
    environment: dict[str, str] = {}
    max_output_bytes: int = 64 << 10
    isolation: Isolation = "strict"
    shut: tuple[str, ...] = ()


class Authority(Struct, frozen=True, kw_only=True):
    """Roots are absolute folders; globs are matched against a path below its root, as in .gitignore: one without a
    slash matches a name at any depth. `closed` are files and folders that no root opens, by device and inode."""

    read: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    programs: Programs = Programs()
    result: Callable[[str], bytes | None] = lambda _hash: None
    """A result that was kept for the job, by its hash."""

    def readable(self, path: str) -> bool:
        """Whether the globs let a file below a root be read. What lies in an excluded folder is excluded."""
        parts = path.split("/")
        above = ("/".join(parts[: n + 1]) for n in range(len(parts)))
        if any(matches(glob, part) for part in above for glob in self.exclude):
            return False
        return not self.include or any(matches(glob, path) for glob in self.include)

    def shut(self) -> frozenset[tuple[int, int]]:
        """Device and inode of everything that is out of reach, as it is now: a hard link is caught, too."""
        found = set()
        for path in self.closed:
            with suppress(OSError):
                at = os.stat(path)
                found.add((at.st_dev, at.st_ino))
        return frozenset(found)

    def roots(self) -> list[str]:
        """The roots that can be read at all: none that lies in what is out of reach."""
        return self._reachable(self.read)

    def write_roots(self) -> list[str]:
        """The same, of those for writing. They may be missing."""
        return self._reachable(self.write)

    def _reachable(self, roots: tuple[str, ...]) -> list[str]:
        closed = [os.path.realpath(path) for path in self.closed]
        real = [os.path.realpath(root) for root in roots]
        return [root for root in real if not any(root == one or root.startswith(one + os.sep) for one in closed)]


class DeniedPathError(Exception):
    """A path that the policy does not open. The message says why."""


def refusal(tool: str, path: str, error: DeniedPathError | OSError | ValueError) -> WaitError:
    """What a tool gives back for a path that it does nothing with."""
    said = error.strerror if isinstance(error, OSError) else error
    what = f"{tool}: {path[:200]!a}: {said}"
    if isinstance(error, DeniedPathError):
        return denied(what, tool)
    return WaitError(message=what, disposition="error", tool=tool)


def parts_of(path: str) -> list[str]:
    """The names in a path that starts at a root. Raises DeniedPathError."""
    if "\0" in path or not 0 < len(path) <= MAX_PATH_CHARS:
        raise DeniedPathError(f"a path has 1 to {MAX_PATH_CHARS} characters, and no NUL")
    if path.startswith("/"):
        raise DeniedPathError("a path starts at one of the policy's roots, and not at /")
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise DeniedPathError("a path has no empty names, and no `.` or `..`")
    try:
        if any(len(part.encode()) > _MAX_NAME_BYTES for part in parts):
            raise DeniedPathError(f"a name has at most {_MAX_NAME_BYTES} bytes")
    except UnicodeEncodeError:
        raise DeniedPathError("a path is UTF-8") from None
    return parts


def check_reach(fd: int, shut: frozenset[tuple[int, int]]) -> None:
    """Raise DeniedPathError where this is out of reach: one of these, or a store, be it another one."""
    found = os.fstat(fd)
    if (found.st_dev, found.st_ino) in shut or (stat.S_ISDIR(found.st_mode) and is_store(fd)):
        raise DeniedPathError("it is out of reach of any tool")


def is_store(folder: int) -> bool:
    """Whether an open folder has what every store has."""
    with suppress(OSError):
        kinds = [stat.S_IFMT(os.stat(name, dir_fd=folder).st_mode) for name in ("jobs", "objects", "lock")]
        return kinds == [stat.S_IFDIR, stat.S_IFDIR, stat.S_IFREG]
    return False


@contextmanager
def opened(root: str, parts: Sequence[str], shut: frozenset[tuple[int, int]], flags: int) -> Iterator[int]:
    """A descriptor of what lies below a root, name by name and through no link. Raises DeniedPathError where it is out
    of reach, OSError where it is not there."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        check_reach(fd, shut)
        for at, part in enumerate(parts):
            kind = flags if at == len(parts) - 1 else os.O_RDONLY | os.O_DIRECTORY
            below = os.open(part, kind | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = below
            check_reach(fd, shut)
        yield fd
    finally:
        os.close(fd)
