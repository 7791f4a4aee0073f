"""Make a call: check its arguments, hand it its secrets, run the tool, and give an outcome that a job can keep."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from cruft_sched.core.answers import answer_fault
from cruft_sched.core.awaits import InvalidArgsError, WaitError, denied
from cruft_sched.core.redaction import MIN_CHARS, Redactor
from cruft_sched.tools.tool import Call, Outcome, Tool

MAX_MESSAGE_CHARS = 2000
_GRACE_MS = 250
"""How long after its time a result may come: the time that a tool's own way back takes."""


class Performed(Struct, frozen=True, kw_only=True):
    """What a call came to. `late` is a result that came after its time: it is recorded, and never delivered."""

    outcome: Outcome
    late: Raw | None = None


def args_fault(name: str, tool: Tool, args: Any) -> InvalidArgsError | None:
    """What is wrong with the arguments of a call, with the JSON path. Nothing has run."""
    fault = answer_fault(args, tool.args) if tool.args else None
    if fault is None:
        return None
    return InvalidArgsError(message=f"the arguments of {name} are refused: {fault}", disposition="error", tool=name)


def perform(name: str, tool: Tool, call: Call, secret_names: Sequence[str] = ()) -> Performed:
    """Check a call's arguments, and run the tool. Whatever it does, the outcome is one that a job can keep: masked of
    the values of the environment variables `secret_names`, which the tool alone is given."""
    fault = args_fault(name, tool, call.args)
    if fault is not None:
        return Performed(outcome=fault)
    if not secret_names:
        return _timed(name, tool, call)
    secrets = {variable: os.environ.get(variable, "") for variable in secret_names}
    for variable, value in secrets.items():
        if len(value) < MIN_CHARS:
            what = f"the environment variable {variable}, which the policy gives to {name}, is not set"
            what = f"{what}, or shorter than the {MIN_CHARS} characters that can be masked"
            return Performed(outcome=denied(what, name))
    done = _timed(name, tool, msgspec.structs.replace(call, secrets=secrets))
    masks = Redactor(secrets=tuple(secrets.values()))
    return Performed(outcome=masks.own(done.outcome), late=None if done.late is None else masks.value(done.late))


def _timed(name: str, tool: Tool, call: Call) -> Performed:
    started = time.monotonic()
    outcome = _run(name, tool, call)
    took_ms = int((time.monotonic() - started) * 1000)
    if isinstance(outcome, WaitError) or took_ms <= call.limit_ms + _GRACE_MS:
        return Performed(outcome=outcome)
    late = WaitError(
        message=f"{name} was not done after {call.limit_ms} ms",
        disposition="timeout",
        tool=name,
        timeout_ms=call.limit_ms,
        duration_ms=took_ms,
        late_result_suppressed=True,
    )
    return Performed(outcome=late, late=outcome)


def _run(name: str, tool: Tool, call: Call) -> Outcome:
    try:
        return tool.run(call)
    except Exception as error:  # a tool that raises is an answer to the agent, never a lost job
        said = f"{type(error).__name__}: {error}"[:MAX_MESSAGE_CHARS]
        return WaitError(message=said.encode(errors="replace").decode(), disposition="error", tool=name)
