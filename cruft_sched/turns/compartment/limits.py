"""Limits on what a turn uses: the kernel's resource limits, and two timers whose signal nothing can catch."""

from __future__ import annotations

import ctypes
import resource

from cruft_sched.linux.kernel import call

_CLOCK_MONOTONIC, _CLOCK_PROCESS_CPU = 1, 2
_SIGKILL, _BY_SIGNAL = 9, 0


def set_limits(timeout_ms: int, memory_bytes: int) -> None:
    """No files written, no processes, no core, 16 descriptors, bounded address space and CPU time."""
    seconds = timeout_ms // 1000 + 2
    limits = {
        "RLIMIT_AS": memory_bytes,
        "RLIMIT_CPU": seconds,
        "RLIMIT_NOFILE": 16,
        "RLIMIT_NPROC": 0,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_CORE": 0,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
    }
    for name, limit in limits.items():
        which = getattr(resource, name, None)
        if which is None:
            continue  # not every system has every limit
        hard = resource.getrlimit(which)[1]
        bound = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(which, (bound, bound))


def kill_after(timeout_ms: int) -> None:
    """Be killed after so much time, on the wall or of the processor, also where the driver is stopped or stuck.

    Raises OSError.
    """
    for clock in (_CLOCK_MONOTONIC, _CLOCK_PROCESS_CPU):
        timer = ctypes.c_int()
        call("timer_create", clock, ctypes.byref(_Event(None, _SIGKILL, _BY_SIGNAL)), ctypes.byref(timer))
        once = _Time(0, 0, timeout_ms // 1000, timeout_ms % 1000 * 1_000_000)
        call("timer_settime", timer.value, 0, ctypes.byref(once), None)


class _Event(ctypes.Structure):
    """struct sigevent, of 64 bytes."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("_", ctypes.c_char * 48),
    )


class _Time(ctypes.Structure):
    """struct itimerspec: the interval, then the first time, in seconds and nanoseconds."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("every_s", "every_ns", "first_s", "first_ns"))
