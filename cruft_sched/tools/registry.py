"""The durable catalogue: the tools that `scheduler.callTool` reaches, and how each is run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from cruft_sched.core.awaits import WaitError


class Call(Struct, frozen=True, kw_only=True):
    """One call. `timeout_ms` is already bounded by the policy; the key is the same however often the call is tried."""

    args: Any
    timeout_ms: int | None
    timeout_limit_ms: int
    idempotency_key: str
    stop: Callable[[], object] = lambda: None
    """True-ish when the call's outcome will not be wanted: the job was cancelled."""

    def pause(self, ms: int) -> None:
        """Wait, and look a few times a second whether the wait still has a sense."""
        until = time.monotonic() + ms / 1000
        while (left := until - time.monotonic()) > 0 and not self.stop():
            time.sleep(min(left, 0.1))


class Tool(Struct, frozen=True, kw_only=True):
    """`writes`: it changes something outside. `idempotent`: running it twice with one key changes that once."""

    run: Callable[[Call], Raw | WaitError]
    writes: bool = False
    idempotent: bool = False

    @property
    def repeatable(self) -> bool:
        """Whether a call that may have run can simply be run again."""
        return not self.writes or self.idempotent


def catalogue() -> dict[str, Tool]:
    """Every durable tool by its name."""
    from cruft_sched.tools import echo, fail, slow

    return {"echo": Tool(run=echo.run), "fail": Tool(run=fail.run), "slow": Tool(run=slow.run)}


def perform(name: str, tool: Tool, call: Call, max_result_bytes: int) -> Raw | WaitError:
    """Run a tool. Whatever it does, the outcome is one that a job can keep."""
    try:
        outcome = tool.run(call)
    except Exception as error:  # a tool that raises is an answer to the agent, never a lost job
        return WaitError(message=f"{type(error).__name__}: {error}"[:2000], disposition="error", tool=name)
    if isinstance(outcome, Raw) and len(bytes(outcome)) > max_result_bytes:
        what = f"its result is {len(bytes(outcome))} bytes, and max_tool_result_bytes is {max_result_bytes}"
        return WaitError(message=what, disposition="error", tool=name)
    return outcome


def as_json(value: object) -> Raw:
    """A result, as the JSON that the manifest keeps."""
    return Raw(msgspec.json.encode(value))
