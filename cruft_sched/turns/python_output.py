"""What a Python agent prints: lines for the audit log, up to a bound."""

from __future__ import annotations

import sys
from io import RawIOBase, TextIOWrapper

from cruft_sched.turns.python_values import to_json
from cruft_sched.turns.wire import MAX_OUTPUT_BYTES

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from typing import Any

    from cruft_sched.turns.host import Host


class _Stream(RawIOBase):
    """The bytes below one of the two streams. What is over the bound goes nowhere."""

    def __init__(self, host: Host, name: str, left: list[int]) -> None:
        self._host = host
        self._name = name
        self._left = left
        """Bytes that both streams may still give: one more than is kept, so that the driver sees there was more."""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        given = bytes(data)  # type: ignore[call-overload]  # whatever the wrapper has: bytes, or a view of them
        kept = given[: self._left[0]]
        self._left[0] -= len(kept)
        if kept:
            self._host.output(self._name, to_json(kept.decode("utf-8", "replace"), "the output"))
        return len(given)


def redirect(host: Host) -> None:
    """Have `print` and its like speak to the driver, a line at a time, and what is left when the turn ends."""
    left = [MAX_OUTPUT_BYTES + 1]
    streams: list[Any] = [_wrapped(_Stream(host, name, left)) for name in ("stdout", "stderr")]
    sys.stdout, sys.stderr = streams

    def flush() -> None:
        for stream in streams:
            if not stream.closed:
                stream.flush()

    host.before_end = flush


def _wrapped(stream: Any) -> TextIOWrapper:  # a raw stream, where typeshed asks for a buffered one: no buffer is needed
    return TextIOWrapper(stream, "utf-8", "backslashreplace", line_buffering=True)
