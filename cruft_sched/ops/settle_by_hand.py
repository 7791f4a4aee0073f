"""Decide what became of a tool call whose driver died in it: a person looks, and says."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from cruft_sched.clock import Clock
from cruft_sched.core import awaits
from cruft_sched.core.awaits import Started, ToolAwait, WaitError
from cruft_sched.core.lifecycle import Settled, advance
from cruft_sched.core.manifest import Manifest, Status
from cruft_sched.core.redaction import redactor_of
from cruft_sched.core.strict_json import duplicate_keys, parse_json
from cruft_sched.errors import DataError, WrongStatusError
from cruft_sched.ops.advance import apply_cancel
from cruft_sched.ops.texts import checked
from cruft_sched.stores.file import FileStore

MAX_RESULT_BYTES = 1 << 20


class Result(Struct, frozen=True):
    """It was done, and this (JSON) is its result."""

    json: bytes


class Failed(Struct, frozen=True):
    """It was not done, or went wrong."""

    message: str


class Again(Struct, frozen=True):
    """It had no effect, so that it can be made again."""


Decision = Result | Failed | Again


class SettleReport(Struct, frozen=True, kw_only=True):
    """What `settle` prints. The job goes on with the next tick."""

    type: str = "agent_scheduler_settle"
    schema_version: int = 1
    job_id: str
    status: Status
    tool: str
    settled: str


def settle_by_hand(
    store: FileStore, job_id: str, decision: Decision, clock: Clock, by: str | None = None
) -> SettleReport:
    """Settle the call of `job_id` that was started, and of which nothing more is known. `by` is who says so.

    Raises WrongStatusError where there is no such call, DataError for a result that is not JSON; then nothing was
    changed.
    """
    for text, what in ((by, "the name of who decides"), (getattr(decision, "message", None), "the error")):
        if text is not None:
            checked(text, what)
    result = _result(decision) if isinstance(decision, Result) else None
    with store.hold(job_id) as held:
        manifest, now = held.load(), clock.now_ms()
        if held.cancel_request(manifest) is not None and not manifest.terminal:
            manifest = apply_cancel(held, manifest, now)
        wait = _lost(manifest)
        event = _event(wait, decision, result, now, by)
        committed = held.commit(redactor_of(manifest).manifest(advance(manifest, event, now)))
    return SettleReport(job_id=job_id, status=committed.status, tool=wait.payload.tool, settled=_WORDS[type(decision)])


_WORDS: dict[type[Decision], str] = {Result: "result", Failed: "error", Again: "retry"}


def _lost(manifest: Manifest) -> ToolAwait:
    """The call that was started. Raises WrongStatusError."""
    wait = manifest.wait
    if isinstance(wait, ToolAwait) and isinstance(wait.settlement, Started):
        return wait
    if isinstance(wait, ToolAwait) and wait.done is not None:
        what, todo = f"the call of {wait.payload.tool} has its outcome", "the next tick goes on"
    elif isinstance(wait, ToolAwait):
        what, todo = f"the call of {wait.payload.tool} was not begun", "a tick makes it"
    else:
        what, todo = "there is no call in it", "nothing was changed"
    raise WrongStatusError(f"job {manifest.job_id} is {manifest.status}, and {what}", todo)


def _event(wait: ToolAwait, decision: Decision, result: Raw | None, now: int, by: str | None) -> Settled:
    match decision:
        case Again():
            return Settled(name="tool_retry", wait=replace(wait, settlement=None), by=by)
        case Failed(message=message):
            error = WaitError(message=message, disposition="error", tool=wait.payload.tool)
            return Settled(name="tool_done", wait=awaits.tool_done(wait, error, now, by), by=by)
        case _:
            outcome: Any = result
            return Settled(name="tool_done", wait=awaits.tool_done(wait, outcome, now, by), by=by)


def _result(decision: Result) -> Raw:
    try:
        value = parse_json(decision.json, MAX_RESULT_BYTES)
    except DataError as error:
        raise DataError(f"the result is refused: {error.what}", "nothing was changed: settle it again") from None
    twice = duplicate_keys(value, "$")
    if twice:
        raise DataError(f"the result is refused: {twice[0]}", "nothing was changed: settle it again")
    return Raw(msgspec.json.format(decision.json, indent=-1))
