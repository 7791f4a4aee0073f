"""`readFile`: a page of a text file below one of the policy's roots."""

from __future__ import annotations

import os
import stat

from msgspec import Raw

from cruft_sched.core.awaits import WaitError
from cruft_sched.tools.authority import Authority, DeniedPathError, opened, parts_of, refusal
from cruft_sched.tools.pages import page
from cruft_sched.tools.tool import Call

NAME = "readFile"
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY


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
    return page({"path": path}, found.st_size, lambda limit, offset: os.pread(fd, limit, offset), call)
