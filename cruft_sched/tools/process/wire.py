"""How an order reaches the supervisor, and what it answers. Imported by both: nothing slow is imported here."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the supervisor 10 ms
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SIZE_BYTES = 8

EXIT, TOLD, TIMEOUT, CROWD = "exit", "told", "timeout", "crowd"
"""What ended the program: itself; the driver, or its death; the supervisor at the timeout; too many processes."""

FAULT, UNAVAILABLE = "fault", "unavailable"
"""Why no program was started: something about it, or about this machine."""


def pack(head: Mapping[str, int], *lists: Sequence[bytes]) -> bytes:
    """One order: numbers by name, then lists of what has no NUL."""
    fields = [b"%d" % len(head)]
    fields += [b"%s=%d" % (name.encode(), value) for name, value in head.items()]
    for items in lists:
        fields += [b"%d" % len(items), *items]
    body = b"\0".join(fields)
    return len(body).to_bytes(_SIZE_BYTES, "little") + body


def read_order(control: int) -> tuple[dict[str, int], list[list[bytes]]] | None:
    """The order that comes in. None where the driver gave none."""
    size = _read(control, _SIZE_BYTES)
    body = _read(control, int.from_bytes(size or b"", "little"))
    if not size or body is None:
        return None
    fields = body.split(b"\0")
    at = 1 + int(fields[0])
    pairs = (field.decode().split("=") for field in fields[1:at])
    head = {name: int(value) for name, value in pairs}
    lists = []
    while at < len(fields):
        count = int(fields[at])
        lists.append(fields[at + 1 : at + 1 + count])
        at += 1 + count
    return head, lists


def _read(control: int, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        piece = os.read(control, size - len(data))
        if not piece:
            return None
        data += piece
    return bytes(data)


def same_file(status: os.stat_result) -> dict[str, int]:
    """What tells whether a file is another one, or was written to."""
    return {
        "dev": status.st_dev,
        "ino": status.st_ino,
        "size": status.st_size,
        "mtime": status.st_mtime_ns,
        "ctime": status.st_ctime_ns,
    }
