"""Who the process is: nobody where it was root, without capabilities, and dead when its driver dies."""

from __future__ import annotations

import ctypes
import os

from cruft_sched.linux.kernel import call, prctl

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Sequence

NOBODY = 65534
_PDEATHSIG, _DUMPABLE, _SUBREAPER, _NO_NEW_PRIVS = 1, 4, 36, 38
_SIGKILL = 9
_CAPABILITY_VERSION_3 = 0x20080522


def drop(readable: Sequence[str]) -> str:
    """Give up root's identity and every capability. Returns what became of the identity.

    `own`: it was not root's. `dropped`: it is nobody's now. `kept`: it is root's still, since nobody could not read
    the files that are needed, or there is no such user in this namespace. Raises OSError.
    """
    outcome = "own" if os.geteuid() != 0 else "dropped" if _become_nobody(readable) else "kept"
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    call("capset", ctypes.byref(header), ctypes.byref(nothing))
    return outcome


def _become_nobody(readable: Sequence[str]) -> bool:
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, 0)  # what is saved is the way back
    except OSError:
        return False
    if not all(map(_can_read, readable)):
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        return False
    os.setresuid(NOBODY, NOBODY, NOBODY)
    return True


def _can_read(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def die_with_driver(by_signal: int = _SIGKILL) -> None:
    """Be killed when the thread that started this process ends. Changing the identity would undo it. Raises OSError."""
    prctl("PR_SET_PDEATHSIG", _PDEATHSIG, by_signal)


def adopt_orphans() -> None:
    """Be the parent of every descendant whose own parent ends. Raises OSError."""
    prctl("PR_SET_CHILD_SUBREAPER", _SUBREAPER, 1)


def hide_memory() -> None:
    """Let nobody attach to this process, nor read its memory. Raises OSError."""
    prctl("PR_SET_DUMPABLE", _DUMPABLE, 0)


def gain_nothing() -> None:
    """Never gain a privilege again. Landlock and seccomp ask for it. Raises OSError."""
    prctl("PR_SET_NO_NEW_PRIVS", _NO_NEW_PRIVS, 1)
