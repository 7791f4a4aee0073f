"""The steps of the compartment, in the one order that works."""

from __future__ import annotations

import os
import sys

from cruft_sched.linux import identity, landlock
from cruft_sched.linux.kernel import LESS, CompartmentError, call, processor
from cruft_sched.turns.compartment import limits, seccomp
from cruft_sched.turns.wire import DRIVER_GONE

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Sequence

_GRACE_MS = 500
"""How long after the driver should have killed the process the kernel does it."""

_FIRST_DESCRIPTOR, _LAST_DESCRIPTOR = 3, 0xFFFFFFFF


def confine(
    tier: str, *, driver: int, pipes: Sequence[int], readable: Sequence[str], timeout_ms: int, memory_bytes: int
) -> dict[str, str | int]:
    """Confine this process for ever: it keeps its `pipes`, and may read `readable` where its tier reads files.

    Returns the level that was reached: `isolation`, `tier`, `landlock_abi`, `identity`. Raises CompartmentError where
    any of it cannot be had.
    """
    processor()
    readable = readable if tier == "stdlib" else ()
    try:
        who = identity.drop(readable)
        identity.die_with_driver()
        if os.getppid() != driver:
            os._exit(DRIVER_GONE)
        identity.hide_memory()
        _close_all_but(sorted(pipes))
        limits.set_limits(timeout_ms, memory_bytes)
        limits.kill_after(timeout_ms + _GRACE_MS)
        identity.gain_nothing()
        abi = landlock.restrict(readable)
        seccomp.restrict(tier)
    except OSError as error:
        call_name = error.filename or "a system call"
        raise CompartmentError(f"the kernel refused {call_name} ({error.strerror})", LESS) from None
    return {"isolation": "strict", "tier": tier, "landlock_abi": abi, "identity": who}


def separate(*, driver: int, timeout_ms: int, memory_bytes: int) -> dict[str, str | int]:
    """What a process can do for itself on every system: limits, and on Linux the death with its driver. Agent code in
    it reads files and opens sockets as the user may. Returns the level that was reached."""
    if sys.platform == "linux":
        identity.die_with_driver()
    if os.getppid() != driver:
        os._exit(DRIVER_GONE)
    limits.set_limits(timeout_ms, memory_bytes)
    return {"isolation": "process"}


def _close_all_but(kept: Sequence[int]) -> None:
    """Close every descriptor above the standard ones, but for those that are kept."""
    first = _FIRST_DESCRIPTOR
    for descriptor in kept:
        if descriptor > first:
            call("close_range", first, descriptor - 1, 0)
        first = max(first, descriptor + 1)
    call("close_range", first, _LAST_DESCRIPTOR, 0)
