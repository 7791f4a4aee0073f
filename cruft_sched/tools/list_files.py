"""`listFiles`: the files below the policy's roots that `readFile` could read."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress

from msgspec import Raw

from cruft_sched.core.awaits import WaitError
from cruft_sched.tools.authority import Authority, DeniedPathError, check_reach, opened, parts_of, refusal
from cruft_sched.tools.globs import matches
from cruft_sched.tools.tool import Call, as_json

NAME = "listFiles"
MAX_LOOKED_AT = 200_000
MAX_DEPTH = 64
DEFAULT_LIMIT = 1000


def run(call: Call) -> Raw | WaitError:
    """Paths and sizes, sorted by path, `limit` at most, of those after `after`; `next` is the last one if there are
    more."""
    path = call.args.get("path", "")
    try:
        found = _all(path, call)
    except (DeniedPathError, ValueError, OSError) as error:
        return refusal(NAME, path, error)
    glob, after, limit = call.args.get("glob"), call.args.get("after", ""), int(call.args.get("limit", DEFAULT_LIMIT))
    names = sorted(name for name in found if name > after and (glob is None or matches(glob, name)))
    shown = names[:limit]
    entries = [{"path": name, "bytes": found[name]} for name in shown]
    return as_json({"entries": entries, "next": shown[-1] if len(names) > len(shown) else None})


def _all(path: str, call: Call) -> dict[str, int]:
    parts = parts_of(path) if path else []
    authority, until = call.authority(), time.monotonic() + call.limit_ms / 1000
    shut = authority.shut()
    found: dict[str, int] = {}
    missing = True
    looked_at = 0
    for root in authority.roots():
        try:
            with opened(root, parts, shut, os.O_RDONLY | os.O_DIRECTORY) as fd:
                missing = False
                for name, size in _walk(fd, path, authority, shut, 0):
                    found.setdefault(name, size)  # the first root that has it is where it is read
                    looked_at += 1
                    if looked_at > MAX_LOOKED_AT or time.monotonic() > until or call.stop():
                        raise ValueError(f"too much lies there ({looked_at} files so far): give a path further down")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise DeniedPathError(f"it cannot be opened through links, or as a folder ({error.strerror})") from None
    if missing:
        raise FileNotFoundError(2, "there is no such folder below the policy's fs_read")
    return found


def _walk(
    fd: int, above: str, authority: Authority, shut: frozenset[tuple[int, int]], depth: int
) -> Iterator[tuple[str, int]]:
    if depth > MAX_DEPTH:
        raise ValueError(f"folders are nested more than {MAX_DEPTH} deep")
    with os.scandir(fd) as entries:
        listed = sorted(entry.name for entry in entries)
    for name in listed:
        path = f"{above}/{name}" if above else name
        try:
            path.encode()
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except (FileNotFoundError, UnicodeEncodeError):
            continue
        if (found.st_dev, found.st_ino) in shut:
            continue
        if found.st_mode & 0o170000 == 0o100000 and authority.readable(path):
            yield path, found.st_size
        elif found.st_mode & 0o170000 == 0o040000:
            try:
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue  # not ours to read, or another thing since the look
            try:
                with suppress(DeniedPathError):
                    check_reach(below, shut)
                    yield from _walk(below, path, authority, shut, depth + 1)
            finally:
                os.close(below)
