"""How a job, and an answer, goes into the child. Both sides import this file, so it imports nothing that is slow."""

from __future__ import annotations

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


NOT_READY = 98
"""The child's exit code when it could not confine itself: no agent code has run."""

MAX_OUTPUT_BYTES = 64 << 10
"""How much of what a turn prints is kept, of both streams together."""

DRIVER_GONE = 97
"""The child's exit code when its driver died."""


def pack(head: Mapping[str, str | int], fields: Sequence[bytes]) -> bytes:
    """One line of `name=value` pairs, one line of lengths, then the fields themselves."""
    pairs = " ".join(f"{name}={value}" for name, value in head.items())
    lengths = " ".join(str(len(field)) for field in fields)
    return b"\n".join((pairs.encode(), lengths.encode(), b"".join(fields)))


def unpack(data: bytes) -> tuple[dict[str, str], list[bytes]]:
    """What was packed. Raises ValueError on a torn one."""
    pairs, lengths, rest = data.split(b"\n", 2)
    head = dict(pair.split("=", 1) for pair in pairs.decode().split())
    fields, at = [], 0
    for length in map(int, lengths.split()):
        fields.append(rest[at : at + length])
        at += length
    if at != len(rest):
        raise ValueError("the job is torn")
    return head, fields


def frame(data: bytes) -> bytes:
    """What goes into the child's pipe at once: its length on a line, and itself."""
    return b"%d\n%b" % (len(data), data)


def entry_bytes(key: bytes, value: bytes) -> int:
    """What one entry adds to the size of a state as compact JSON. Both are JSON already."""
    return len(key) + len(value) + len(b":,")


EMPTY_STATE_BYTES = 1
"""`{}` is two bytes, and the first entry has a comma too few."""
