"""Answer a job that waits for a person."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import msgspec
from msgspec import Raw

from cruft_sched.clock import Clock
from cruft_sched.core import awaits
from cruft_sched.core.answers import answer_fault
from cruft_sched.core.awaits import InputAwait, ToolPayload
from cruft_sched.core.lifecycle import Settled, advance
from cruft_sched.core.manifest import Manifest, TimelineEntry
from cruft_sched.core.redaction import redactor_of
from cruft_sched.core.sealing import digest
from cruft_sched.core.strict_json import duplicate_keys, parse_json
from cruft_sched.errors import BusyError, DataError, RefusedError, WrongStatusError
from cruft_sched.ops import approvals
from cruft_sched.ops.advance import apply_cancel, go_on
from cruft_sched.ops.bound import read_bound
from cruft_sched.ops.reports import Report, moved
from cruft_sched.ops.stopping import Stop, never
from cruft_sched.ops.texts import checked
from cruft_sched.stores.file import FileStore, HeldJob

MAX_ANSWER_BYTES = 1 << 20
_LOOKS, _LOOK_S = 50, 0.02


def submit_input(
    store: FileStore,
    job_id: str,
    token: str,
    answer: bytes,
    clock: Clock,
    *,
    by: str | None = None,
    defer: bool = False,
    stop: Stop = never,
) -> Report:
    """Answer `job_id` with `answer`, which is JSON, and run the turn that receives it; with `defer`, leave that to the
    next tick. `by` is who answered, as they say.

    Raises WrongStatusError where the job waits for no answer (any more), RefusedError for a token that is not the
    wait's, DataError for an answer that is not JSON or not of the wait's schema; then nothing was changed.
    """
    if by is not None:
        checked(by, "the name of who answers")
    try:
        with store.hold(job_id) as held:
            return _answer_held(held, token, answer, clock, by, defer, stop)
    except BusyError:
        raise _winner(store, job_id) or WrongStatusError(
            f"job {job_id} is being advanced", "see what it waits for when that is done"
        ) from None


def _winner(store: FileStore, job_id: str) -> WrongStatusError | None:
    """Who was faster. Whoever holds the job may not have committed the answer yet, so give it a moment."""
    for _ in range(_LOOKS):
        manifest = store.load(job_id)
        if manifest.question is None:
            given = _answer_of(manifest)
            return _too_late(job_id, given) if given is not None else None
        time.sleep(_LOOK_S)
    return None


def _answer_held(
    held: HeldJob, token: str, answer: bytes, clock: Clock, by: str | None, defer: bool, stop: Stop
) -> Report:
    manifest, now = held.load(), clock.now_ms()
    if held.cancel_request(manifest) is not None and not manifest.terminal:
        manifest = apply_cancel(held, manifest, now)
    wait = _pending(manifest, now)
    if not held.store.store_key().same(digest(token.encode("utf-8", "surrogatepass")), wait.payload.token_hash):
        raise RefusedError(
            "input token does not match pending wait",
            f"`cruft agent schedule token {manifest.job_id}` shows the right one",
        )
    value = _check_answer(answer, wait)
    if wait.payload.then is not None:
        return _decide(held, manifest, wait, wait.payload.then, value, by, clock, stop if not defer else None)
    answered = advance(manifest, Settled(name="answered", wait=awaits.answered(wait, value, by, now)), now)
    if defer:
        return moved(held.commit(answered), "agent_scheduler_input")
    return go_on(held, answered, clock, stop, "agent_scheduler_input", answered=True)


def _decide(
    held: HeldJob,
    manifest: Manifest,
    wait: InputAwait,
    call: ToolPayload,
    answer: Raw,
    by: str | None,
    clock: Clock,
    stop: Stop | None,
) -> Report:
    """Commit what a person decided of a tool call, and make it; without `stop`, leave that to the next tick."""
    now = clock.now_ms()
    policy = read_bound(held.store, manifest).policy  # a decision under another policy is none
    decision = approvals.decided(wait, call, answer, by, now, manifest.uid)
    answered = advance(manifest, Settled(name="answered", wait=decision, by=by), now)
    approvals.record(policy, manifest, decision, now)
    committed = held.commit(redactor_of(manifest).manifest(answered))
    if stop is None:
        return moved(committed, "agent_scheduler_input")
    return go_on(held, committed, clock, stop, "agent_scheduler_input")


def _pending(manifest: Manifest, now: int) -> InputAwait:
    """The input that the job waits for. Raises WrongStatusError where there is none, or none any more."""
    question, wait = manifest.question, manifest.wait
    if question is not None:
        limit = question.payload.deadline_ms
        if limit is None or now < limit:
            return question
        raise WrongStatusError(f"the input of job {manifest.job_id} ended at {_when(limit)}", "the next tick goes on")
    if isinstance(wait, InputAwait) and wait.done is not None and wait.done.error is not None:
        ended = _when(wait.done.at_ms)
        raise WrongStatusError(f"the input of job {manifest.job_id} ended at {ended}", "its next turn was told so")
    given = _answer_of(manifest)
    if given is not None:
        raise _too_late(manifest.job_id, given)
    raise WrongStatusError(
        f"job {manifest.job_id} is {manifest.status}, and waits for no answer", "nothing was changed"
    )


def _answer_of(manifest: Manifest) -> TimelineEntry | None:
    """The last answer that the job was given."""
    return next((entry for entry in reversed(manifest.timeline) if entry.event == "answered"), None)


def _too_late(job_id: str, winner: TimelineEntry) -> WrongStatusError:
    by = f" by {winner.by}" if winner.by else ""
    return WrongStatusError(
        f"job {job_id} was answered at {_when(winner.at_ms)}{by}, and waits for no answer", "nothing was changed"
    )


def _when(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _check_answer(answer: bytes, wait: InputAwait) -> Raw:
    """The answer as JSON on one line. Raises DataError."""
    try:
        value = parse_json(answer, MAX_ANSWER_BYTES)
    except DataError as error:
        raise DataError(f"the answer is refused: {error.what}", "the job still waits: answer again") from None
    twice = duplicate_keys(value, "$")
    fault = twice[0] if twice else answer_fault(value, msgspec.json.decode(wait.payload.schema))
    if fault is not None:
        raise DataError(f"the answer is refused: {fault}", "the job still waits: answer again")
    return Raw(msgspec.json.format(answer, indent=-1))
