"""The Linux kernel's calls, by name: numbers of two processors, and one way to make a call.

The two packages that wrap Landlock and seccomp were tried: one takes an old errno for a failure and costs 25 ms to
import, the other needs a system library and is from 2021. What is needed of them is below and in the files beside it.
The numbers of aarch64 are from the kernel's own table and have not been run.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

_PROCESSORS = ("x86_64", "aarch64")
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""How a processor is called in what a seccomp filter sees (linux/audit.h)."""

_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "brk": (12, 214),
    "capget": (125, 90),
    "capset": (126, 91),
    "clock_getres": (229, 114),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "close": (3, 57),
    "close_range": (436, 436),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "fstat": (5, 80),
    "futex": (202, 98),
    "getcwd": (79, 17),
    "getdents64": (217, 61),
    "getegid": (108, 177),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getpid": (39, 172),
    "getrandom": (318, 278),
    "gettid": (186, 178),
    "gettimeofday": (96, 169),
    "getuid": (102, 174),
    "landlock_add_rule": (445, 445),
    "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446),
    "lseek": (8, 62),
    "lstat": (6, None),
    "madvise": (28, 233),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "munmap": (11, 215),
    "newfstatat": (262, 79),
    "openat": (257, 56),
    "pread64": (17, 67),
    "read": (0, 63),
    "restart_syscall": (219, 128),
    "rt_sigreturn": (15, 139),
    "sched_yield": (24, 124),
    "seccomp": (317, 277),
    "sigaltstack": (131, 132),
    "stat": (4, None),
    "time": (201, None),
    "timer_create": (222, 107),
    "timer_settime": (223, 110),
    "uname": (63, 160),
    "write": (1, 64),
}


class CompartmentError(Exception):
    """The compartment cannot be had here. `what` is missing, and `todo` says what can be done."""

    def __init__(self, what: str, todo: str) -> None:
        super().__init__(f"{what}; {todo}")


def processor() -> str:
    """This machine's processor. Raises CompartmentError where there is no table for it, or no Linux."""
    if sys.platform != "linux":
        raise CompartmentError(f"the compartment needs Linux, and this is {sys.platform}", LESS)
    machine = os.uname().machine
    if machine not in _PROCESSORS or sys.maxsize < 1 << 32:
        raise CompartmentError(f"the compartment knows no system calls of a {machine} processor", LESS)
    return machine


LESS = 'run the agent on another machine, or allow less with "isolation": "process" in its policy'
"""The remedy where nothing can be mended."""


def number(name: str) -> int | None:
    """The number of a system call here; None where this processor has no such call."""
    return _NUMBERS[name][_PROCESSORS.index(processor())]


def call(name: str, *arguments: object) -> int:
    """Make a system call; integers are passed as C longs. Raises OSError, whose `filename` is the call's name."""
    known = number(name)
    if known is None:
        raise OSError(errno.ENOSYS, "ENOSYS", name)
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _checked(name, _libc().syscall(ctypes.c_long(known), *converted))


def prctl(name: str, option: int, value: int = 0) -> None:
    """Change something of this process. `name` is what it is called in an error. Raises OSError."""
    rest = [ctypes.c_ulong(argument) for argument in (value, 0, 0, 0)]
    _checked(name, _libc().prctl(ctypes.c_int(option), *rest))


def _checked(name: str, returned: int) -> int:
    if returned < 0:
        code = ctypes.get_errno()
        raise OSError(code, errno.errorcode.get(code, str(code)), name)
    return returned


def _libc() -> ctypes.CDLL:
    if not _loaded:
        library = ctypes.CDLL(None, use_errno=True)
        library.syscall.restype = ctypes.c_long
        _loaded.append(library)
    return _loaded[0]


_loaded: list[ctypes.CDLL] = []
