"""The audit log on disk: appended to, whole lines at a write, fsynced before the commit that names its head."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cruft_sched.errors import DataError, StorageError
from cruft_sched.stores import atomic, disk

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_FIRST_LINES = (b'{"type":"run_start"', b'{"type":"run_void"')


class AuditLog:
    """An open audit log. Any number of processes may append to one file at the same time."""

    def __init__(self, path: str) -> None:
        """Open or make (0600) the log. Raises DataError where `path` is a link, a folder or somebody's other file."""
        self.path = path
        with _log(path):
            atomic.make_folder(os.path.dirname(path))
            made = not os.path.lexists(path)
            self._fd = disk.open_file(path, _FLAGS, 0o600)
            if made:
                disk.fsync_folder(os.path.dirname(path))
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def append(self, lines: bytes) -> None:
        """Append whole lines, newlines included. After a torn line they start a new one. Raises StorageError."""
        with _log(self.path):
            atomic.write_all(self._fd, lines if self._at_line_start() else b"\n" + lines)

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

    def _at_line_start(self) -> bool:
        size = os.fstat(self._fd).st_size
        return size == 0 or os.pread(self._fd, 1, size - 1) == b"\n"

    def _check(self) -> None:
        found = os.fstat(self._fd)
        if not stat.S_ISREG(found.st_mode):
            raise DataError(f"the audit log {self.path} is not a regular file", "give audit_log another path")
        if found.st_size and not _looks_like_a_log(os.pread(self._fd, 64, 0)):
            raise DataError(f"{self.path} exists and is no audit log; it was left alone", "give audit_log another path")


def check_log(path: str, others: Sequence[str]) -> None:
    """Raise DataError where `path` could not be an audit log, or is one of the `others`: the policy, the agent, the
    store (a folder, all of which is out of reach). It is not made."""
    real = os.path.realpath(path)
    for other in map(os.path.realpath, others):
        if real == other or real.startswith(other + os.sep):
            raise DataError(f"the audit log {path} is, or lies in, {other}", "give audit_log another path")
    if os.path.lexists(path):
        AuditLog(path).close()


def _looks_like_a_log(start: bytes) -> bool:
    """Whether a file begins as every audit log does: with a line of a run. A first line may be torn."""
    return any(start.startswith(line) or (b"\n" not in start and line.startswith(start)) for line in _FIRST_LINES)


@contextmanager
def _log(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NO_LOG:
            raise DataError(
                f"the audit log {path} cannot be one ({error.strerror})", "give audit_log another path"
            ) from error
        raise StorageError(
            f"cannot write the audit log {path}: {error.strerror or error}",
            "make room or mend the disk, and tick again",
        ) from error


_NO_LOG = frozenset((errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.EMLINK, errno.ENXIO, errno.ENAMETOOLONG))
