"""The process that runs one turn. It confines itself, says `ready`, and only then runs agent code."""

from __future__ import annotations

import os
import resource
import sys

from cruft_sched.turns.host import Host, read_frame
from cruft_sched.turns.wire import DRIVER_GONE, NOT_READY, unpack

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

_MIB = 1 << 20
_INTERPRETER_BYTES = 192 * _MIB
"""Address space of the interpreter and the engine themselves, over which `max_rss_mb` is the agent's."""

_PR_SET_PDEATHSIG = 1
_SIGKILL = 9


def main() -> NoReturn:
    """Run the job that comes in on descriptor argv[1]; speak on descriptor argv[2]."""
    job_pipe, out_pipe = int(sys.argv[1]), int(sys.argv[2])
    try:
        head, fields = unpack(read_frame(job_pipe))
        prepare = _runtime(head["language"])
        source, context, *pairs = (field.decode() for field in fields)
        split = 2 * int(head["modules"])
        modules = dict(zip(pairs[:split:2], pairs[1:split:2], strict=True))
        state = dict(zip(pairs[split::2], pairs[split + 1 :: 2], strict=True))
        limits = {name: int(value) for name, value in head.items() if name.startswith("max_")}
        host = Host(job_pipe, out_pipe, limits, state)
        run = prepare(host, source, context, scheduled=head["scheduled"] == "1", limits=limits, modules=modules)
        _die_with(int(head["driver"]))
        _limit(timeout_ms=int(head["timeout_ms"]), memory_bytes=limits["max_rss_mb"] * _MIB)
    except Exception as error:  # whatever it was, the agent does not run
        os.write(out_pipe, f"{type(error).__name__}: {error}\n".encode()[:4096])
        os._exit(NOT_READY)
    host.ready()
    run()


def _runtime(language: str) -> Callable[..., Callable[[], NoReturn]]:
    """The runtime of a language, loaded alone: the other one would cost every turn."""
    if language == "python":
        from cruft_sched.turns import python

        return python.prepare
    from cruft_sched.turns import javascript

    return javascript.prepare


def _die_with(driver: int) -> None:
    """Be killed when the driver dies; where it died before this was said, end here."""
    if sys.platform == "linux":
        import ctypes

        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, _SIGKILL) != 0:
            raise OSError(ctypes.get_errno(), "PR_SET_PDEATHSIG")
    if os.getppid() != driver:
        os._exit(DRIVER_GONE)


def _limit(timeout_ms: int, memory_bytes: int) -> None:
    """No files, no processes, no core, bounded memory and CPU. The wall clock is the driver's."""
    seconds = timeout_ms // 1000 + 2
    limits = {
        "RLIMIT_AS": memory_bytes + _INTERPRETER_BYTES,
        "RLIMIT_CPU": seconds,
        "RLIMIT_NOFILE": 16,
        "RLIMIT_NPROC": 0,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_CORE": 0,
        "RLIMIT_MEMLOCK": 0,
    }
    for name, limit in limits.items():
        which = getattr(resource, name, None)
        if which is None:
            continue  # not every system has every limit
        hard = resource.getrlimit(which)[1]
        bound = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(which, (bound, bound))
