"""The processes below this one, and how to kill one without ever hitting a stranger that was given its number."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the supervisor 10 ms
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator
else:
    import _signal as signal  # the same without its enumerations, which would cost 3 ms


def can_be_listed() -> bool:
    """Whether the kernel tells which children a process has."""
    try:
        _children(os.getpid())
    except OSError:
        return False
    return True


def descendants() -> Iterator[tuple[int, int]]:
    """Each process below this one, with its parent, the parent first.

    The children of one are listed only when the next is asked for: one that was killed by then starts no more, so its
    list is whole. What is missed since a parent has just ended is a child of this process the next time.
    """
    todo = [(child, os.getpid()) for child in _children(os.getpid())]
    while todo:
        pid, parent = todo.pop()
        yield pid, parent
        try:
            todo += [(child, pid) for child in _children(pid)]
        except OSError:
            continue  # it has ended


def kill(pid: int, parent: int) -> None:
    """Kill a process that was listed with this parent, if it is still the same one."""
    me = os.getpid()
    if parent == me:  # not reaped, so its number is its own
        os.kill(pid, signal.SIGKILL)
        return
    try:
        held = os.pidfd_open(pid)
    except OSError:  # it has ended; or the kernel is old, and it is a child of this process soon enough
        return
    try:
        if _parent(pid) in (parent, me):
            signal.pidfd_send_signal(held, signal.SIGKILL)
    except OSError:
        pass  # it has ended
    finally:
        os.close(held)


def _children(pid: int) -> list[int]:
    """The children of each of its threads. Raises OSError where it has ended."""
    found: list[int] = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return found


def _parent(pid: int) -> int:
    return int(_read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])


def _read(path: str) -> bytes:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = bytearray()
        while piece := os.read(opened, 1 << 16):
            data += piece
        return bytes(data)
    finally:
        os.close(opened)
