"""seccomp: the list of system calls that are left. Any other fails with EPERM.

A filter is a program for the kernel's packet filter: instructions of eight bytes (code, two jumps, a constant) that
load 32-bit words of the call's description and return what is to happen (linux/seccomp.h, linux/filter.h).
"""

from __future__ import annotations

import ctypes

from cruft_sched.linux.kernel import AUDIT_ARCH, CompartmentError, call, number, processor

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Iterable

_COMPUTE = (
    *("read", "write", "close", "brk", "munmap", "mremap", "madvise", "futex", "sched_yield", "getrandom"),
    *("clock_gettime", "clock_getres", "gettimeofday", "time", "getpid", "gettid"),
    *("rt_sigreturn", "restart_syscall", "sigaltstack", "exit", "exit_group"),
)
_READ_FILES = (
    *("fstat", "newfstatat", "stat", "lstat", "lseek", "pread64", "getdents64", "getcwd", "clock_nanosleep"),
    *("getuid", "geteuid", "getgid", "getegid", "uname"),
)
"""What reads; Landlock says which files. The standard library asks who and where it is as it is imported (`uuid`,
`sysconfig`). `stat` and `lstat` are those of C libraries older than glibc 2.33."""

TIERS = {"strict": _COMPUTE, "stdlib": _COMPUTE + _READ_FILES}
"""What each tier may call, whatever the arguments."""

_PROT_WRITE, _PROT_EXEC, _MAP_ANONYMOUS = 0x2, 0x4, 0x20
_NOT_FOR_READING = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000 | 0o20000000 | 0o10000000
"""Flags of openat: writing, creating, truncating, appending, O_TMPFILE, O_PATH (whose bits few processors change)."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL_PROCESS, _ERRNO, _EPERM = 0x7FFF0000, 0x80000000, 0x00050000, 1
REFUSE = _ERRNO | _EPERM
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
"""Where the description of a call holds its number, its processor and its arguments, which are 64 bits each."""

_X32 = 0x40000000
_SET_MODE_FILTER, _ALL_THREADS = 1, 1


def restrict(tier: str) -> None:
    """Leave this process, for ever, the calls of a tier. It must not be able to gain privileges by then.

    Raises CompartmentError where the kernel has no seccomp filters.
    """
    try:
        install(program(tier))
    except OSError as error:
        what = f"the kernel has no seccomp filters ({error.strerror} from {error.filename})"
        raise CompartmentError(what, REMEDY) from None


REMEDY = 'use a kernel with CONFIG_SECCOMP_FILTER, or allow less with "isolation": "process" in the policy'


def program(tier: str) -> bytes:
    """The filter of a tier, for this processor."""
    rules = {name: _allow() for name in TIERS[tier]}
    rules["mprotect"] = _unless_any(2, _PROT_EXEC)
    rules["mmap"] = _unless_any(2, _PROT_EXEC)
    if tier == "stdlib":  # extension modules are mapped, from files that cannot be written
        rules["mmap"] = _unless_code_of_our_own()
        rules["openat"] = _unless_any(2, _NOT_FOR_READING)
    return assemble(rules, otherwise=REFUSE)


def assemble(rules: dict[str, bytes], otherwise: int) -> bytes:
    """A filter that does what its call's rule says, and `otherwise` what no rule names.

    A call of another processor's kind (the 32-bit gate, x32) kills the process.
    """
    head = _load(_ARCH) + _jump(_EQUAL, AUDIT_ARCH[processor()], 1, 0) + _return(_KILL_PROCESS) + _load(_NUMBER)
    parts = [head, _jump(_AT_LEAST, _X32, 0, 1), _return(_KILL_PROCESS)]
    for name, rule in rules.items():
        known = number(name)
        if known is not None:
            parts += [_jump(_EQUAL, known, 0, len(rule) // 8), rule]
    return b"".join((*parts, _return(otherwise)))


def answer_with(names: Iterable[str], errno: int) -> dict[str, bytes]:
    """Rules under which these calls fail with an error number."""
    return {name: _return(_ERRNO | errno) for name in names}


ALLOW = _ALLOW


def install(filter_program: bytes) -> None:
    """Put a filter over all threads of this process. Raises OSError."""
    described = _Program(len(filter_program) // 8, filter_program)
    call("seccomp", _SET_MODE_FILTER, _ALL_THREADS, ctypes.byref(described))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _allow() -> bytes:
    return _return(_ALLOW)


def _unless_any(argument: int, bits: int) -> bytes:
    """Refuse the call where any of these bits is set in an argument."""
    return _load(_low_word(argument)) + _jump(_ANY_BIT, bits, 0, 1) + _return(REFUSE) + _return(_ALLOW)


def _unless_code_of_our_own() -> bytes:
    """Refuse mmap where the memory could be executed and is writable, or comes from no file."""
    return b"".join(
        (
            *(_load(_low_word(2)), _jump(_ANY_BIT, _PROT_EXEC, 1, 0), _return(_ALLOW)),
            *(_jump(_ANY_BIT, _PROT_WRITE, 3, 0), _load(_low_word(3)), _jump(_ANY_BIT, _MAP_ANONYMOUS, 1, 0)),
            *(_return(_ALLOW), _return(REFUSE)),
        )
    )


def _low_word(argument: int) -> int:
    return _ARGUMENTS + 8 * argument  # both processors are little-endian


def _load(offset: int) -> bytes:
    return _instruction(_LOAD, offset)


def _jump(test: int, constant: int, if_true: int, if_false: int) -> bytes:
    return _instruction(test, constant, if_true, if_false)


def _return(action: int) -> bytes:
    return _instruction(_RETURN, action)


def _instruction(code: int, constant: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return code.to_bytes(2, "little") + bytes((if_true, if_false)) + constant.to_bytes(4, "little")
