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


_AROUND = (2, 16, 17, 19, 21, 22, 27, 32, 33, 38, 39, 40)
"""dac_read_search, sys_module, sys_rawio, sys_ptrace, sys_admin, sys_boot, mknod, mac_override, mac_admin, perfmon, bpf
and checkpoint_restore: what reaches files and other processes by way of the kernel, the machine's memory or its disks.
With perfmon alone, root reads the environment of every process, whatever Landlock says (seen on 6.18)."""


def drop_ways_around() -> None:
    """Give up the capabilities that lead around Landlock, where it has them. It must not be able to gain privileges by
    then: what it starts would have them again. Raises OSError."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    held = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable of the first 32, then of the others
    call("capget", ctypes.byref(header), ctypes.byref(held))
    for capability in _AROUND:
        first = 3 * (capability // 32)
        for at in range(first, first + 3):
            held[at] &= ~(1 << capability % 32)
    call("capset", ctypes.byref(header), ctypes.byref(held))


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
