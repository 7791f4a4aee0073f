"""The disk as a process is to see it: where links lead, and what lies beside what is shut."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress

from cruft_sched.core.reach import allow_list
from cruft_sched.errors import DataError

MAX_OPENED = 50_000
"""How many paths are opened to a process at most: each costs the kernel a rule, and the start some microseconds."""

_MAX_LINKS = 40  # as the kernel


def reachable(out_of_reach: Iterable[str]) -> list[str]:
    """What to open to a process as the disk is now. Raises DataError where one of these could be reached all the same,
    or where too much lies beside them."""
    shut: set[str] = set()
    for path in out_of_reach:
        shut |= _places(path)
    if shut and os.geteuid() == 0:
        shut |= set(_disks())
    opened = allow_list(shut, _names)
    if len(opened) > MAX_OPENED:
        what = f"{len(opened)} files and folders lie beside what is out of reach of a process"
        raise DataError(what, f"move the store, or the policy, to a folder with fewer than {MAX_OPENED}")
    return opened


def _places(path: str) -> set[str]:
    """Where a path is, and each link on the way: who can change a link can put something else in its place."""
    places, links = set(), 0
    here, todo = "/", [part for part in reversed(path.split("/")) if part not in ("", ".")]
    while todo:
        part = todo.pop()
        if part == "..":
            here = os.path.dirname(here)
            continue
        at = os.path.join(here, part)
        try:
            target = os.readlink(at)
        except OSError:  # it is no link, or not there
            here = at
            continue
        links += 1
        if links > _MAX_LINKS:
            raise DataError(f"{path} leads through more than {_MAX_LINKS} links", "name the file itself")
        places.add(at)
        todo += [part for part in reversed(target.split("/")) if part not in ("", ".")]
        here = "/" if target.startswith("/") else here
    _check_one_name(here)
    return places | {here}


def _check_one_name(path: str) -> None:
    """Raise where a file has a second name, which could be anywhere."""
    with suppress(OSError):
        found = os.lstat(path)
        if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
            what = f"{path} has another name (a hard link), by which a process could reach it"
            raise DataError(what, f"remove it (`find / -xdev -inum {found.st_ino}`), or copy the file to its place")


def _disks() -> Iterator[str]:
    """The disks themselves, through which root could read every file."""
    with suppress(OSError), os.scandir("/dev") as entries:
        for entry in entries:
            with suppress(OSError):
                if stat.S_ISBLK(entry.stat(follow_symlinks=False).st_mode):
                    yield entry.path


def _names(folder: str) -> list[str]:
    """What lies in a folder; a link is not opened, only what it leads to, where that is."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if not entry.is_symlink()]
    except OSError:  # it cannot be listed, or is not there: then nothing in it is opened
        return []
