"""The audit log on disk: appended to, whole lines at a write, fsynced before the commit that names its head.

Jobs and processes share a log. The kernel's lock on the log is held for the length of an append, so that bytes never
mix, and the line that a crash tore is ended once. A log that has grown too large is renamed, to `NAME.1`, `NAME.2` and
so on, when a run opens it. The runs that have it open go on in the renamed file, so each run is whole in one file.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from cruft_sched.errors import DataError, StorageError, remedy
from cruft_sched.stores import atomic, disk

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_FIRST_LINES = (b'{"type":"run_start"', b'{"type":"run_void"')
_LOCK_WAIT_S = 30.0
_LOCK_POLL_S = 0.001


class AuditLog:
    """An open audit log. Any number of processes may append to one file at the same time."""

    def __init__(self, path: str, max_bytes: int | None = None) -> None:
        """Open or make (0600) the log; one of more than `max_bytes` is put aside first, where that is allowed. Raises
        DataError where `path` is a link, a folder or somebody's other file."""
        self.path = path
        self._fd = self._open()
        if max_bytes is not None and os.fstat(self._fd).st_size > max_bytes:
            try:
                again = self._put_aside(max_bytes)
            except BaseException:
                self.close()
                raise
            if again:
                self.close()
                self._fd = self._open()

    def append(self, lines: bytes) -> None:
        """Append whole lines, newlines included, all or none. After a torn line they start a new one. Raises
        StorageError."""
        with _log(self.path), locked(self._fd):
            size = os.fstat(self._fd).st_size
            at_line_start = size == 0 or os.pread(self._fd, 1, size - 1) == b"\n"
            try:
                atomic.write_all(self._fd, lines if at_line_start else b"\n" + lines)
            except OSError:
                with suppress(OSError):  # a disk that is full took a part: the next line would follow a torn one
                    disk.truncate(self._fd, size)
                raise

    def sync(self) -> None:
        """Make what was appended durable. Raises StorageError."""
        with _log(self.path):
            disk.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> AuditLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> int:
        folder = os.path.dirname(self.path)
        with _log(self.path):
            atomic.make_folder(folder)
            fd = disk.open_file(self.path, _FLAGS, 0o600)
            try:
                self._check(fd)
                if os.fstat(fd).st_size == 0:  # it is new, and maybe another's, whose own fsync has not come yet
                    disk.fsync_folder(folder)
            except BaseException:
                os.close(fd)
                raise
        return fd

    def _check(self, fd: int) -> None:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise DataError(f"the audit log {self.path} is not a regular file", "give audit_log another path")
        if found.st_size and not _looks_like_a_log(os.pread(fd, 64, 0)):
            raise DataError(f"{self.path} exists and is no audit log; it was left alone", "give audit_log another path")

    def _put_aside(self, max_bytes: int) -> bool:
        """Rename the log, unless another process has done so meanwhile. False where it has to stay: its folder is not
        ours to write, and lines that are kept are worth more than a file that is small.

        One rename does it, so a power cut leaves the old name or the new one. The folder is made durable when the next
        log is begun in it.
        """
        with _log(self.path), locked(self._fd):
            if not _in_place(self._fd, self.path):
                return True
            if os.fstat(self._fd).st_size <= max_bytes:
                return False
            try:
                disk.rename(self.path, f"{self.path}.{_next_number(self.path)}")
            except OSError as error:
                if error.errno in (errno.EACCES, errno.EPERM):
                    return False
                raise
        return True


def check_log(path: str, others: Sequence[str]) -> None:
    """Raise DataError where `path` could not be an audit log, or is one of the `others`: the policy, the agent, the
    store (a folder, all of which is out of reach). It is not made."""
    real = os.path.realpath(path)
    for other in map(os.path.realpath, others):
        if real == other or real.startswith(other + os.sep):
            raise DataError(f"the audit log {path} is, or lies in, {other}", "give audit_log another path")
    if os.path.lexists(path):
        AuditLog(path).close()


def rotated(path: str) -> list[str]:
    """The files that a log was renamed to, the oldest first."""
    folder, name = os.path.split(path)
    numbers = sorted(map(int, _numbers(folder, name)))
    return [os.path.join(folder, f"{name}.{number}") for number in numbers]


def _next_number(path: str) -> int:
    """One more than the highest: a number that was taken away must not put a new file before older ones."""
    folder, name = os.path.split(path)
    return max(map(int, _numbers(folder, name)), default=0) + 1


def _numbers(folder: str, name: str) -> list[str]:
    ends = [entry[len(name) + 1 :] for entry in os.listdir(folder or ".") if entry.startswith(f"{name}.")]
    return [end for end in ends if end.isascii() and end.isdecimal() and not end.startswith("0") and len(end) < 10]


def _in_place(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _looks_like_a_log(start: bytes) -> bool:
    """Whether a file begins as every audit log does: with a line of a run. A first line may be torn."""
    return any(start.startswith(line) or (b"\n" not in start and line.startswith(start)) for line in _FIRST_LINES)


@contextmanager
def locked(fd: int) -> Iterator[None]:
    """Hold the lock on the log. Nobody keeps it longer than a write takes; whoever does is another program."""
    give_up = time.monotonic() + _LOCK_WAIT_S
    while not disk.lock(fd):
        if time.monotonic() >= give_up:
            raise OSError(errno.EWOULDBLOCK, "another program keeps it locked")
        time.sleep(_LOCK_POLL_S)
    try:
        yield
    finally:
        disk.unlock(fd)


@contextmanager
def _log(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NO_LOG:
            raise DataError(
                f"the audit log {path} cannot be one ({_why(error)})", "give audit_log another path"
            ) from error
        raise StorageError(
            f"cannot write the audit log {path}: {error.strerror or error}",
            f"{remedy(error)}, and run the same command again",
        ) from error


def _why(error: OSError) -> str:
    return "it is a link" if error.errno == errno.ELOOP else str(error.strerror)


_NO_LOG = frozenset(
    (errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.EMLINK, errno.ENXIO, errno.ENAMETOOLONG, errno.ENOENT)
)
