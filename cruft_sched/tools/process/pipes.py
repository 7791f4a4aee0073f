"""Both ends of a running program: its input fed, its outputs read to the end, and little of it kept."""

from __future__ import annotations

import fcntl
import os
import termios
from codecs import getincrementaldecoder

from cruft_sched.tools.process.order import Output

_CHUNK = 64 << 10


class Capture:
    """The first bytes of an output. The others are counted."""

    def __init__(self, fd: int, max_bytes: int) -> None:
        self.fd = fd
        self._max_bytes = max_bytes
        self._kept = bytearray()
        self._total = 0
        os.set_blocking(fd, False)

    def take(self) -> bool:
        """Read some of it. False at its end."""
        try:
            data = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return True
        self._total += len(data)
        self._kept += data[: self._max_bytes - len(self._kept)]
        return bool(data)

    def take_rest(self) -> None:
        """Read what is in the pipe now. The program is dead; but another process may have been given its output."""
        unread = int.from_bytes(fcntl.ioctl(self.fd, termios.FIONREAD, b"\0" * 4), "little")
        end = self._total + unread
        while self._total < end and self.take():
            pass

    def output(self) -> Output:
        """What was written. A character that is cut is left out."""
        cut = self._total > len(self._kept)
        decoder = getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(self._kept, final=not cut)
        rest = len(decoder.getstate()[0])
        return Output(text=text, bytes=self._total, dropped_bytes=self._total - len(self._kept) + rest)


class Feed:
    """The program's input, written as it is read."""

    def __init__(self, fd: int, data: bytes) -> None:
        self.fd = fd
        self._unsent = memoryview(data)
        os.set_blocking(fd, False)

    def close(self) -> None:
        """Let the program see the end of its input."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def give(self) -> bool:
        """Write some of it. False when it is all there, or nobody reads it."""
        try:
            self._unsent = self._unsent[os.write(self.fd, self._unsent) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False
        return len(self._unsent) > 0
