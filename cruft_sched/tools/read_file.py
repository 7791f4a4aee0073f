"""`readFile`: a page of a text file below one of the policy's roots."""

from __future__ import annotations

import os
import stat

from msgspec import Raw

from cruft_sched.core.awaits import WaitError
from cruft_sched.tools.authority import Authority, DeniedPathError, opened, parts_of, refusal
from cruft_sched.tools.registry import Call, as_json

NAME = "readFile"
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_FIELDS_BYTES = 16 << 10
"""Room for the other fields of the result."""


def run(call: Call) -> Raw | WaitError:
    """The text of `args.path` from byte `offset` on, `limit` bytes at most, cut between characters."""
    path, authority = call.args["path"], call.authority()
    try:
        return _read(path, call, authority)
    except (DeniedPathError, ValueError, OSError) as error:
        return refusal(NAME, path, error)


def _read(path: str, call: Call, authority: Authority) -> Raw:
    parts = parts_of(path)
    if not authority.readable(path):
        raise DeniedPathError("the policy's globs leave it out")
    shut = authority.shut()
    for root in authority.roots():
        try:
            with opened(root, parts, shut, _FLAGS) as fd:
                return _page(path, fd, call)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise DeniedPathError(f"it cannot be opened through links, or as what it is ({error.strerror})") from None
    raise FileNotFoundError(2, "there is no such file below the policy's fs_read")


def _page(path: str, fd: int, call: Call) -> Raw:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise DeniedPathError("it is no regular file")
    offset = int(call.args.get("offset", 0))
    room = max(1, call.max_result_bytes - _FIELDS_BYTES)
    limit = min(int(call.args.get("limit", room)), room)
    while True:
        data = os.pread(fd, limit, offset)
        text = _text(data, at_end=offset + len(data) >= found.st_size)
        end = offset + len(text.encode())
        page = {"path": path, "text": text, "bytes": found.st_size, "offset": offset}
        result = as_json(page | {"next_offset": end if end < found.st_size else None})
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
