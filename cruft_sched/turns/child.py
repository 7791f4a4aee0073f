"""The process that runs one turn. It confines itself, says `ready`, and only then runs agent code."""

from __future__ import annotations

import os
import sys

from cruft_sched.linux.kernel import CompartmentError
from cruft_sched.turns.compartment.confine import confine, separate
from cruft_sched.turns.host import Host, read_frame
from cruft_sched.turns.program import Program
from cruft_sched.turns.wire import NOT_READY, unpack

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

_MIB = 1 << 20
_INTERPRETER_BYTES = 192 * _MIB
"""Address space of the interpreter and the engine themselves, over which `max_rss_mb` is the agent's."""

_TIERS = {"javascript": "strict", "python": "stdlib"}
"""How far a language's process is confined: Python imports its standard library from files, as it goes."""


def main() -> NoReturn:
    """Run the job that comes in on descriptor argv[1]; speak on descriptor argv[2]."""
    job_pipe, out_pipe = int(sys.argv[1]), int(sys.argv[2])
    try:
        head, fields = unpack(read_frame(job_pipe))
        prepare = _runtime(head["language"])
        source, context, entry, *pairs = (field.decode() for field in fields)
        split = 2 * int(head["modules"])
        modules = dict(zip(pairs[:split:2], pairs[1:split:2], strict=True))
        state = dict(zip(pairs[split::2], pairs[split + 1 :: 2], strict=True))
        limits = {name: int(value) for name, value in head.items() if name.startswith("max_")}
        host = Host(job_pipe, out_pipe, limits, state)
        scheduled = head["scheduled"] == "1"
        run = prepare(host, Program(source, context, entry, scheduled=scheduled, limits=limits, modules=modules))
        level = _confine(head, pipes=(job_pipe, out_pipe), memory_bytes=limits["max_rss_mb"] * _MIB)
    except CompartmentError as error:
        _unready(out_pipe, str(error))
    except Exception as error:  # whatever it was, the agent does not run
        _unready(out_pipe, f"{type(error).__name__}: {error}")
    host.ready(level)
    run()


def _unready(out_pipe: int, what: str) -> NoReturn:
    os.write(out_pipe, what.encode("utf-8", "replace")[:4096] + b"\n")
    os._exit(NOT_READY)


def _runtime(language: str) -> Callable[..., Callable[[], NoReturn]]:
    """The runtime of a language, loaded alone: the other one would cost every turn."""
    if language == "python":
        from cruft_sched.turns import python

        return python.prepare
    from cruft_sched.turns import javascript

    return javascript.prepare


def _confine(head: dict[str, str], pipes: Sequence[int], memory_bytes: int) -> dict[str, str | int]:
    """Confine this process as far as the policy asks. Returns how far that is."""
    driver, timeout_ms = int(head["driver"]), int(head["timeout_ms"])
    memory_bytes += _INTERPRETER_BYTES
    if head["isolation"] == "process":
        return separate(driver=driver, timeout_ms=timeout_ms, memory_bytes=memory_bytes)
    return confine(
        _TIERS[head["language"]],
        driver=driver,
        pipes=pipes,
        readable=[entry for entry in sys.path if os.path.exists(entry)],
        timeout_ms=timeout_ms,
        memory_bytes=memory_bytes,
    )
