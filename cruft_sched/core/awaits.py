"""What a suspended turn waits for. Each variant carries its own data; every kind settles in its own record."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

MAX_SLEEP_MS = 315_576_000_000
"""Ten years of 365.25 days: the longest wait a timer takes."""


class Fired(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a timer was due, and when a tick found that it was (UTC epoch ms)."""

    deadline_ms: int
    fired_ms: int


class TimerSettlement(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A timer settles in one step: with its firing."""

    at_ms: int
    result: Fired
    state: Literal["done"] = "done"


class TimerPayload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the agent asked to sleep (ms), and until when that is (UTC epoch ms)."""

    delay_ms: int
    deadline_ms: int


class TimerAwait(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="timer"):
    """A turn sleeps until a deadline."""

    type: Literal["cruft_agent_scheduler_await"] = "cruft_agent_scheduler_await"
    version: Literal[1] = 1
    id: str
    payload: TimerPayload
    run_id: str
    created_ms: int
    settlement: TimerSettlement | None = None


Await = TimerAwait


class Resume(Struct, frozen=True, kw_only=True):
    """`context.scheduler_resume`: the settled await, and its result at hand."""

    kind: Literal["timer"]
    wait: Await = field(name="await")
    result: Fired


def fire(timer: TimerAwait, now_ms: int) -> TimerAwait:
    """The timer, settled. One that fired already (its turn was interrupted) keeps its first firing."""
    if timer.settlement is not None:
        return timer
    firing = Fired(deadline_ms=timer.payload.deadline_ms, fired_ms=now_ms)
    return replace(timer, settlement=TimerSettlement(at_ms=now_ms, result=firing))


def resume(wait: Await) -> Resume:
    """What the turn after a settled await receives."""
    if wait.settlement is None:
        raise ValueError(f"await {wait.id} is not settled")
    return Resume(kind="timer", wait=wait, result=wait.settlement.result)


def timer_await(*, await_id: str, turn_id: str, now_ms: int, delay_ms: int, deadline_ms: int) -> TimerAwait:
    """The await of a turn that sleeps."""
    payload = TimerPayload(delay_ms=delay_ms, deadline_ms=deadline_ms)
    return TimerAwait(id=await_id, payload=payload, run_id=turn_id, created_ms=now_ms)
