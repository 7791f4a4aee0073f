"""Which files and folders to open to a process, so that some others stay shut: Landlock knows only lists of what is
allowed.

What is opened is opened with all that lies below it, so no folder on the way to a shut path can be. It is gone down
into instead, and what lies beside the way is opened, one by one. So in a folder on the way nothing can be listed or
made, and what appears there later is out of reach, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

SEPARATOR = "/"


def allow_list(shut: Collection[str], names: Callable[[str], Iterable[str]]) -> list[str]:
    """The paths to open so that none of `shut` can be reached, nor anything below one, and all else there is can.

    Paths are absolute, without links, `.`, `..` or doubled slashes; a missing one shuts its name. `names` gives what
    is in a folder that is on the way to a shut path; it may give nothing.
    """
    way = ways(shut)
    opened: list[str] = []
    todo = [SEPARATOR]
    while todo:
        path = todo.pop()
        if path in shut:
            continue
        if path not in way:
            opened.append(path)
            continue
        below = {_joined(path, name) for name in names(path)}
        todo += sorted(below | {one for one in way - {SEPARATOR} if _parent(one) == path}, reverse=True)
    return opened


def ways(shut: Iterable[str]) -> frozenset[str]:
    """The folders on the way to each shut path: in them nothing can be listed or made."""
    found = set()
    for path in shut:
        while path != SEPARATOR:
            path = _parent(path)
            found.add(path)
    return frozenset(found)


def _joined(folder: str, name: str) -> str:
    return folder + name if folder == SEPARATOR else f"{folder}{SEPARATOR}{name}"


def _parent(path: str) -> str:
    return path.rpartition(SEPARATOR)[0] or SEPARATOR
