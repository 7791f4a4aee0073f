"""Read an audit log and the files it was renamed to, oldest first, a chunk at a time."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress

from msgspec import Struct

from cruft_sched.errors import DataError, StorageError, remedy
from cruft_sched.stores import disk
from cruft_sched.stores.audit_log import locked, rotated

MAX_LINE_BYTES = 128 << 20
_CHUNK = 1 << 20
_SHOWN = 4096


class Line(Struct, frozen=True):
    """A line: its file, counted from the oldest; its number in it, from 1; where it starts; its bytes, newline left
    out; and whether it had one. Of one that is too long for any writer, the start, as if it were torn."""

    file: int
    number: int
    offset: int
    data: bytes
    whole: bool


class LogReader:
    """An audit log as it was when it was opened: what is appended later is not read."""

    def __init__(self, path: str) -> None:
        """Open the log at `path`, with its renamed files. Raises DataError where there is none, StorageError."""
        self.path = os.path.abspath(path)
        self.files: list[str] = []
        self._fds: list[int] = []
        self._sizes: list[int] = []
        real = os.path.realpath(path)
        current = self._open(real)  # first: where it is renamed meanwhile, it is among the renamed ones too
        try:
            seen = set() if current is None else {_identity(current)}
            with _reading(self.path):
                older = rotated(real) if os.path.isdir(os.path.dirname(real)) else []
            for name in older:
                fd = self._open(name)
                if fd is not None and (seen_before := _identity(fd)) not in seen:
                    seen.add(seen_before)
                    self._add(name, fd)
                elif fd is not None:
                    os.close(fd)
            if current is not None:
                self._add(real, current)
        except BaseException:
            self.close()
            raise
        if not self.files:
            raise DataError(f"the audit log {self.path} does not exist", "check the path")

    @property
    def total_bytes(self) -> int:
        return sum(self._sizes)

    def lines(self, on_progress: Callable[[int], None] = lambda _read: None) -> Iterator[Line]:
        """Every line. `on_progress` is told now and then how many bytes were read. Raises StorageError."""
        done = 0
        for file, (fd, size) in enumerate(zip(self._fds, self._sizes, strict=True)):
            splitter = _Splitter(file)
            at = 0
            while at < size:
                with _reading(self.files[file]):
                    os.lseek(fd, at, os.SEEK_SET)
                    chunk = disk.read(fd, min(_CHUNK, size - at))
                if not chunk:
                    break
                at += len(chunk)
                yield from splitter.split(chunk)
                on_progress(done + at)
            done += size
            yield from splitter.rest()

    def line_at(self, file: int, offset: int) -> bytes:
        """The line that starts there, newline left out."""
        data = b""
        with _reading(self.files[file]):
            while b"\n" not in data[-_CHUNK:] and len(data) < MAX_LINE_BYTES:
                size = _SHOWN if not data else _CHUNK
                more = os.pread(self._fds[file], size, offset + len(data))
                if not more:
                    break
                data += more
        return data.partition(b"\n")[0]

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()

    def __enter__(self) -> LogReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, path: str) -> int | None:
        with _reading(path):
            try:
                fd = disk.open_file(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            except FileNotFoundError:
                return None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise DataError(f"the audit log {path} is not a regular file", "check the path")
        return fd

    def _add(self, name: str, fd: int) -> None:
        self.files.append(name)
        self._fds.append(fd)
        size = os.fstat(fd).st_size
        with suppress(OSError), locked(fd):  # where no lock is to be had, the end may be in the middle of a write
            size = os.fstat(fd).st_size
        self._sizes.append(size)


class _Splitter:
    """Makes lines of the chunks of one file. A line that is too long is not kept."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._number = 0
        self._offset = 0
        self._parts: list[bytes] = []
        self._length = 0
        self._kept = 0

    def split(self, chunk: bytes) -> Iterator[Line]:
        first, *others = chunk.split(b"\n")
        self._keep(first)
        for other in others:
            yield self._line(ended=True)
            self._keep(other)

    def rest(self) -> Iterator[Line]:
        """What stands after the last newline."""
        if self._length:
            yield self._line(ended=False)

    def _keep(self, part: bytes) -> None:
        self._length += len(part)
        if self._kept + len(part) <= MAX_LINE_BYTES:
            self._parts.append(part)
            self._kept += len(part)

    def _line(self, *, ended: bool) -> Line:
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        whole = ended and self._kept == self._length
        self._number += 1
        line = Line(self._file, self._number, self._offset, data if whole or not ended else data[:_SHOWN], whole)
        self._offset += self._length + 1
        self._parts, self._length, self._kept = [], 0, 0
        return line


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


class _reading:  # noqa: N801  # reads as a sentence
    """Turn what the system says into one sentence."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if not isinstance(error, OSError):
            return
        if error.errno in _NO_FILE:
            raise DataError(f"the audit log {self._path} cannot be read ({error.strerror})", "check the path") from None
        raise StorageError(
            f"cannot read the audit log {self._path}: {error.strerror or error}", f"{remedy(error)}, and try again"
        ) from error


_NO_FILE = frozenset(
    (errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ENXIO)
)
