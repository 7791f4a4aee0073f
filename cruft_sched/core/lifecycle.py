"""Every fact about what can happen to a job.

A job is `created` by `start`. A turn takes it to `running`. A turn ends in one of three ways: it suspends, and
the job awaits what it asked for; it comes to its end, and the job is `completed`; or it fails, and so does the
job. An await is settled in place: a timer by its firing, a tool by its outcome (before which the start of a tool that
writes is noted), an input by an answer or by its deadline. A call that goes wrong may be made again, later. A question
whether a tool may be called becomes that call by its answer. A settled await starts the next turn, and stays in the
record until the outcome of that turn is. An input whose deadline is to fail the job fails it. When the driver dies in
a turn, the job goes back to where that turn had started (`interrupted`); the third time in a row is a failure.
`cancelled` and `expired` end a job from any status that is not the end already. Nothing leaves `completed`, `failed`,
`cancelled` and `expired`.

TRANSITIONS says all of that once more, for the machine. A pair that is not in it is illegal: `advance` raises, and
nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Raw, Struct
from msgspec.structs import replace

from cruft_sched.core.awaits import Await, InputAwait, Retrying, ToolAwait, deadline_ms
from cruft_sched.core.ids import turn_id
from cruft_sched.core.manifest import STATUSES, TIMELINE_LIMIT, AuditHead, BudgetLedger, Manifest, Status, TimelineEntry
from cruft_sched.core.outcomes import NULL, BudgetError, InterruptionError, TurnError
from cruft_sched.core.redaction import redactor_of
from cruft_sched.errors import WrongStatusError

MAX_INTERRUPTIONS = 3
"""So many interrupted turns in a row fail a job: its turn may be what kills the driver."""


class TurnStarted(Struct, frozen=True, kw_only=True):
    """A turn begins. It receives the outcome of the job's await, which must be settled."""

    name: Literal["turn_started"] = "turn_started"


class Settled(Struct, frozen=True, kw_only=True):
    """The job's await as it is now: with its outcome; as a tool call that was started, or is to be made again; or as
    the tool call that a person was asked about. `by` is who decided that."""

    name: Literal["fired", "tool_started", "tool_retry", "tool_done", "answered", "timed_out"]
    wait: Await
    by: str | None = None


class Suspended(Struct, frozen=True, kw_only=True):
    """The running turn asked for something to wait for."""

    name: Literal["suspended"] = "suspended"
    wait: Await
    state: dict[str, Raw]
    events: int
    tools: int = 0
    audit: AuditHead


class Completed(Struct, frozen=True, kw_only=True):
    """The running turn came to the agent's end."""

    name: Literal["completed"] = "completed"
    result: Raw
    state: dict[str, Raw]
    events: int
    tools: int = 0
    audit: AuditHead


class Failed(Struct, frozen=True, kw_only=True):
    """The running turn failed. Its state and its counts are those of the turn before."""

    name: Literal["failed"] = "failed"
    error: TurnError
    audit: AuditHead | None = None


class Interrupted(Struct, frozen=True, kw_only=True):
    """The running turn was broken off. Its driver died, and a tick found the job's lock free; or the driver gave the
    turn up for a reason of its own, which is then `reason`, and is not held against the agent."""

    name: Literal["interrupted"] = "interrupted"
    reason: str | None = None


class Cancelled(Struct, frozen=True, kw_only=True):
    """Somebody cancelled the job; `audit` is where the turn that this killed stands in the log."""

    name: Literal["cancelled"] = "cancelled"
    reason: str | None = None
    audit: AuditHead | None = None


class Expired(Struct, frozen=True, kw_only=True):
    """A budget of the whole job is used up."""

    name: Literal["expired"] = "expired"
    error: BudgetError


Event = TurnStarted | Settled | Suspended | Completed | Failed | Interrupted | Cancelled | Expired
EventName = Literal[
    "turn_started",
    "fired",
    "tool_started",
    "tool_retry",
    "tool_done",
    "answered",
    "timed_out",
    "suspended",
    "completed",
    "failed",
    "interrupted",
    "cancelled",
    "expired",
]

BY_AWAIT: Literal["by_await"] = "by_await"
"""The status that the job's await implies, see AWAITING; without one, `created`."""

_ENDS: dict[EventName, Status | Literal["by_await"]] = {"cancelled": "cancelled", "expired": "expired"}

TRANSITIONS: dict[Status, dict[EventName, Status | Literal["by_await"]]] = {
    "created": {"turn_started": "running", **_ENDS},
    "running": {
        "suspended": BY_AWAIT,
        "completed": "completed",
        "failed": "failed",
        "interrupted": BY_AWAIT,
        **_ENDS,
    },
    "awaiting_timer": {"fired": "awaiting_timer", "turn_started": "running", **_ENDS},
    "awaiting_tool": {
        "tool_started": "awaiting_tool",
        "tool_retry": "awaiting_tool",
        "tool_done": "awaiting_tool",
        "turn_started": "running",
        **_ENDS,
    },
    "awaiting_input": {
        "answered": BY_AWAIT,
        "timed_out": "awaiting_input",
        "turn_started": "running",
        "failed": "failed",
        **_ENDS,
    },
    "completed": {},
    "failed": {},
    "cancelled": {},
    "expired": {},
}

AWAITING: dict[str, Status] = {"timer": "awaiting_timer", "tool": "awaiting_tool", "input": "awaiting_input"}


def created(manifest: Manifest) -> Manifest:
    """A new job's manifest, with the first entry of its timeline."""
    return replace(
        manifest,
        timeline=(TimelineEntry(event="created", at_ms=manifest.created_ms, status="created"),),
        budget_ledger=BudgetLedger(),
    )


def advance(manifest: Manifest, event: Event, now_ms: int) -> Manifest:
    """The job after `event`. Raises WrongStatusError where TRANSITIONS has no such pair.

    A clock that was set back does not take the timeline with it: an entry is never earlier than the one before.
    """
    target = TRANSITIONS[manifest.status].get(event.name)
    if target is None:
        raise WrongStatusError(
            f"job {manifest.job_id} is {manifest.status}, which does not admit {event.name}", _next_step(manifest)
        )
    at_ms = max(now_ms, manifest.updated_ms)
    changed = replace(manifest, updated_ms=at_ms, **_EFFECTS[type(event)](manifest, event, at_ms))
    changed = replace(changed, status=_status_by_await(changed) if target == BY_AWAIT else target)
    changed = _recount(changed)
    entry = _entry(manifest, changed, event, at_ms, now_ms)
    kept = (*changed.timeline, entry)[-TIMELINE_LIMIT:]
    dropped = changed.timeline_dropped + len(changed.timeline) + 1 - len(kept)
    changed = replace(changed, timeline=kept, timeline_dropped=dropped)
    return redactor_of(manifest).manifest(changed) if changed.terminal else changed


def recover(manifest: Manifest, now_ms: int) -> Manifest:
    """A job whose driver died: back to where the turn started, or failed, the third time in a row."""
    if manifest.interruptions + 1 < MAX_INTERRUPTIONS:
        return advance(manifest, Interrupted(), now_ms)
    error = InterruptionError(times=manifest.interruptions + 1)
    return advance(manifest, Failed(error=error), now_ms)


def _turn_started(manifest: Manifest, _event: TurnStarted, _at_ms: int) -> dict[str, Any]:
    if any(wait.done is None for wait in manifest.awaits):
        raise WrongStatusError(f"job {manifest.job_id} still waits: its await is not settled", _next_step(manifest))
    number = manifest.turn_cursor + 1
    return {"turn_cursor": number, "active_turn_id": turn_id(manifest.job_id, number)}


def _settled(manifest: Manifest, event: Settled, _at_ms: int) -> dict[str, Any]:
    (wait,) = manifest.awaits
    if wait.done is not None or wait.id != event.wait.id:
        raise WrongStatusError(f"job {manifest.job_id}: its await is settled already", _next_step(manifest))
    ledger = manifest.budget_ledger
    return {
        "awaits": (event.wait,),
        "budget_ledger": replace(ledger, tools=ledger.tools + (event.name == "tool_done")),
    }


def _suspended(manifest: Manifest, event: Suspended, _at_ms: int) -> dict[str, Any]:
    return _turn_over(manifest, event, "suspended") | {"awaits": (event.wait,)}


def _completed(manifest: Manifest, event: Completed, _at_ms: int) -> dict[str, Any]:
    return _turn_over(manifest, event, "completed") | {"awaits": (), "result": event.result}


def _failed(manifest: Manifest, event: Failed, _at_ms: int) -> dict[str, Any]:
    ledger = replace(manifest.budget_ledger, failures=manifest.budget_ledger.failures + 1)
    return {
        "active_turn_id": None,
        "last_turn_status": "failed",
        "error": event.error,
        "awaits": (),
        "budget_ledger": ledger,
        "audit": event.audit or manifest.audit,
    }


def _interrupted(manifest: Manifest, event: Interrupted, _at_ms: int) -> dict[str, Any]:
    return {
        "active_turn_id": None,
        "last_turn_status": "interrupted",
        "interruptions": manifest.interruptions + (event.reason is None),
    }


def _cancelled(manifest: Manifest, event: Cancelled, _at_ms: int) -> dict[str, Any]:
    return {"active_turn_id": None, "awaits": (), "audit": event.audit or manifest.audit}


def _expired(_manifest: Manifest, event: Expired, _at_ms: int) -> dict[str, Any]:
    return {"active_turn_id": None, "awaits": (), "error": event.error}


_EFFECTS: dict[type[Event], Callable[[Manifest, Any, int], dict[str, Any]]] = {
    TurnStarted: _turn_started,
    Settled: _settled,
    Suspended: _suspended,
    Completed: _completed,
    Failed: _failed,
    Interrupted: _interrupted,
    Cancelled: _cancelled,
    Expired: _expired,
}


def _turn_over(
    manifest: Manifest, event: Suspended | Completed, status: Literal["suspended", "completed"]
) -> dict[str, Any]:
    """What a turn that did not fail leaves: all of it, in one write."""
    ledger = manifest.budget_ledger
    return {
        "active_turn_id": None,
        "last_turn_status": status,
        "interruptions": 0,
        "state": event.state,
        "result": NULL,
        "budget_ledger": replace(ledger, events=ledger.events + event.events, tools=ledger.tools + event.tools),
        "audit": event.audit,
    }


def _recount(manifest: Manifest) -> Manifest:
    """The two figures of the ledger that stand elsewhere in the record too."""
    outstanding = sum(wait.done is None for wait in manifest.awaits)
    ledger = replace(manifest.budget_ledger, turns=manifest.turn_cursor, outstanding_awaits=outstanding)
    return replace(manifest, budget_ledger=ledger)


def _status_by_await(manifest: Manifest) -> Status:
    if not manifest.awaits:
        return "created"
    return AWAITING[manifest.awaits[0].kind]


def _entry(before: Manifest, after: Manifest, event: Event, at_ms: int, now_ms: int) -> TimelineEntry:
    return TimelineEntry(
        event=event.name,
        at_ms=at_ms,
        status=after.status,
        turn_id=after.active_turn_id or before.active_turn_id,
        clock_ms=now_ms if now_ms < at_ms else None,
        **_details(event),
    )


def _details(event: Event) -> dict[str, Any]:
    """What else an entry says of its event."""
    match event:
        case Suspended(wait=wait):
            return {"deadline_ms": deadline_ms(wait), "tool": _tool(wait)}
        case Settled(wait=wait):
            done = wait.done
            error = done.error.message if done and done.error else None
            if isinstance(wait.settlement, Retrying):
                error = wait.settlement.error.message
            by = event.by or (done.by if done else None)
            return {"tool": _tool(wait), "by": by, "error": error, "deadline_ms": _next_try(wait)}
        case Failed() | Expired():
            return {"error": str(event.error)}
        case Cancelled() | Interrupted():
            return {"reason": event.reason}
        case _:
            return {}


def _tool(wait: Await) -> str | None:
    if isinstance(wait, InputAwait):
        return None if wait.payload.then is None else wait.payload.then.tool
    return wait.payload.tool if isinstance(wait, ToolAwait) else None


def _next_try(wait: Await) -> int | None:
    return wait.settlement.next_ms if isinstance(wait.settlement, Retrying) else None


def _next_step(manifest: Manifest) -> str:
    if manifest.terminal:
        return "it is over: start a new job"
    if manifest.status == "running":
        return "wait for the turn that is running"
    return f"see `cruft agent schedule status {manifest.job_id}`"


assert set(TRANSITIONS) == set(STATUSES)  # noqa: S101  # the table is whole, or the program does not start
