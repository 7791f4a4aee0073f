"""Advance one job by one turn. The order of the steps is the contract: see docs/concepts.md."""

from __future__ import annotations

from contextlib import suppress

import msgspec
from msgspec import Raw, Struct

from cruft_sched.clock import Clock
from cruft_sched.core import awaits, lifecycle, outcomes
from cruft_sched.core.audit import void_line
from cruft_sched.core.awaits import TimerAwait
from cruft_sched.core.ids import await_id
from cruft_sched.core.lifecycle import Completed, Failed, Interrupted, Suspended, TurnStarted, advance
from cruft_sched.core.manifest import AuditHead, Manifest, Status
from cruft_sched.core.outcomes import Request, Sleep, TurnError, TurnOutcome
from cruft_sched.core.policy import RESERVED_CONTEXT_KEY
from cruft_sched.errors import StorageError, SystemFailedError, WrongStatusError
from cruft_sched.ops.audited_turn import run_audited
from cruft_sched.ops.bound import Bound, read_bound
from cruft_sched.stores.audit_log import AuditLog
from cruft_sched.stores.file import FileStore, HeldJob
from cruft_sched.turns.turn import Turn


class NotReady(Struct, frozen=True, kw_only=True):
    """The job's timer has not reached its deadline. No turn was run, and nothing was written."""

    type: str = "agent_scheduler_tick"
    schema_version: int = 1
    job_id: str
    status: Status
    ready: bool = False
    deadline_ms: int
    now_ms: int


class Ticked(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn was run, and its outcome is committed. `error` is what failed the turn."""

    type: str
    schema_version: int
    job_id: str
    status: Status
    turn_id: str
    turn_cursor: int
    child_exit_code: int
    deadline_ms: int | None = None
    error: TurnError | None = None


def tick(store: FileStore, job_id: str, clock: Clock, wait_s: float = 0.0) -> NotReady | Ticked:
    """Advance `job_id` by one turn. `wait_s` is how long to wait for another tick of it to end (seconds).

    Raises UnknownJobError, DataError, WrongStatusError, BusyError, StorageError.
    """
    # A look without the lock: a job that sleeps costs one read, and no tick in flight can be disturbed.
    sleeping = _not_ready(store.load(job_id), clock.now_ms())
    if sleeping is not None:
        return sleeping
    with store.hold(job_id, wait_s) as held:
        return _tick_held(held, clock)


def _tick_held(held: HeldJob, clock: Clock) -> NotReady | Ticked:
    manifest = held.load()
    now = clock.now_ms()
    if manifest.status == "running":  # and its lock was free: the driver died, and its child with it
        manifest = _recover(held, manifest, now)
        if manifest.terminal:
            return _failed_by_interruptions(manifest)
    sleeping = _not_ready(manifest, now)
    if sleeping is not None:
        return sleeping
    _check_tickable(manifest)
    bound = read_bound(held.store, manifest)
    settled = awaits.fire(manifest.awaits[0], now) if manifest.awaits else None
    with AuditLog(bound.audit_path) as log:
        running = held.commit(advance(manifest, TurnStarted(settled=settled), now))
        try:
            outcome, head = run_audited(_turn(running, bound), _turn_id(running), _start_line(running), log, clock)
            committed = held.commit(_after(running, outcome, head, clock.now_ms()))
        except (StorageError, SystemFailedError, KeyboardInterrupt) as broken_off:
            _give_up(held, running, log, broken_off, clock.now_ms())
            raise
    return _ticked(committed, _turn_id(running), outcome.child_exit_code)


def _give_up(held: HeldJob, running: Manifest, log: AuditLog, reason: BaseException, now: int) -> None:
    """Take the job back to where its turn started, if that can be written; else the next tick finds it running."""
    what = str(reason) or "Ctrl-C"
    with suppress(StorageError):
        log.append(void_line(_turn_id(running), now))
        log.sync()
        held.commit(advance(running, Interrupted(reason=what), now))


def _not_ready(manifest: Manifest, now: int) -> NotReady | None:
    if manifest.status != "awaiting_timer":
        return None
    timer = manifest.awaits[0]
    if timer.settlement is not None or timer.payload.deadline_ms <= now:
        return None
    deadline = timer.payload.deadline_ms
    return NotReady(job_id=manifest.job_id, status=manifest.status, deadline_ms=deadline, now_ms=now)


def _check_tickable(manifest: Manifest) -> None:
    """Raise WrongStatusError where no turn can start from here, before anything else is looked at."""
    if "turn_started" not in lifecycle.TRANSITIONS[manifest.status]:
        raise WrongStatusError(f"job {manifest.job_id} is {manifest.status}, and has no next turn", "start a new job")


def _recover(held: HeldJob, manifest: Manifest, now: int) -> Manifest:
    """Take a job back to where its interrupted turn started, and declare the run of that turn void."""
    bound = read_bound(held.store, manifest)
    with AuditLog(bound.audit_path) as log:
        log.append(void_line(_turn_id(manifest), now))
        log.sync()
    return held.commit(lifecycle.recover(manifest, now))


def _turn_id(running: Manifest) -> str:
    if running.active_turn_id is None:
        raise ValueError(f"job {running.job_id} is {running.status} and has no turn")
    return running.active_turn_id


def _turn(running: Manifest, bound: Bound) -> Turn:
    context = running.context
    if running.awaits:
        resume = msgspec.json.encode(awaits.resume(running.awaits[0]))
        context = context | {RESERVED_CONTEXT_KEY: Raw(resume)}
    return Turn(source=bound.agent, context=context, state=running.state, budgets=bound.policy.budgets, scheduled=True)


def _start_line(running: Manifest) -> dict[str, str]:
    return {
        "job_id": running.job_id,
        "policy_hash": running.policy_hash,
        "agent_hash": running.agent_hash,
        "isolation": "process",
    }


def _after(running: Manifest, outcome: TurnOutcome, head: AuditHead, now: int) -> Manifest:
    """The job after its turn: state, counts and await together, or the failure alone."""
    match outcome.ending:
        case outcomes.Suspended(request=request):
            wait = _wait(request, _turn_id(running), now)
            event = Suspended(wait=wait, state=outcome.state, events=outcome.events, audit=head)
            return advance(running, event, now)
        case outcomes.Completed(result=result):
            done = Completed(result=result, state=outcome.state, events=outcome.events, audit=head)
            return advance(running, done, now)
        case outcomes.Failed(error=error):
            return advance(running, Failed(error=error, audit=head), now)


def _wait(request: Request, turn_id: str, now: int) -> TimerAwait:
    if isinstance(request, Sleep):
        delay, deadline = request.delay_ms, now + request.delay_ms
    else:
        delay, deadline = max(0, request.deadline_ms - now), request.deadline_ms
    return awaits.timer_await(
        await_id=await_id(turn_id), turn_id=turn_id, now_ms=now, delay_ms=delay, deadline_ms=deadline
    )


def _ticked(manifest: Manifest, turn_id: str, child_exit_code: int) -> Ticked:
    return Ticked(
        type="agent_scheduler_tick",
        schema_version=1,
        job_id=manifest.job_id,
        status=manifest.status,
        turn_id=turn_id,
        turn_cursor=manifest.turn_cursor,
        child_exit_code=child_exit_code,
        deadline_ms=manifest.awaits[0].payload.deadline_ms if manifest.awaits else None,
        error=manifest.error,
    )


def _failed_by_interruptions(manifest: Manifest) -> Ticked:
    last = manifest.timeline[-1].turn_id or ""
    return _ticked(manifest, last, 137)
