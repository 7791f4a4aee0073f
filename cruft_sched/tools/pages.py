"""A text that is given page by page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from cruft_sched.tools.tool import Call, as_json

_FIELDS_BYTES = 16 << 10
"""Room for the other fields of the result."""


def page(what: dict[str, Any], size: int, read: Callable[[int, int], bytes], call: Call) -> Raw:
    """The page that a call asks for by `offset` and `limit` (bytes), of a text of `size` bytes; `read` gives so many
    bytes from there on. It is cut between characters, and fits in a result. Raises ValueError where it is no text."""
    offset = int(call.args.get("offset", 0))
    room = max(1, call.max_result_bytes - _FIELDS_BYTES)
    limit = min(int(call.args.get("limit", room)), room)
    while True:
        data = read(limit, offset)
        text = _text(data, at_end=offset + len(data) >= size)
        end = offset + len(text.encode())
        told = {**what, "text": text, "bytes": size, "offset": offset}
        result = as_json(told | {"next_offset": end if end < size else None})
        if len(bytes(result)) <= call.max_result_bytes or limit < 2:
            return result
        limit //= 2  # it grew by what JSON escapes


def _text(data: bytes, *, at_end: bool) -> str:
    if b"\0" in data:
        raise ValueError("it is no text: it has a NUL byte")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if not at_end and error.start >= len(data) - 3 and error.start > 0:
            return data[: error.start].decode()
        raise ValueError(f"it is not UTF-8 (byte {error.start} of the page)") from None
