"""What a tick does under the job's lock, once a look has said that the job can move."""

from __future__ import annotations

from contextlib import suppress

from msgspec import Raw
from msgspec.structs import replace

from cruft_sched.clock import Clock
from cruft_sched.core import awaits, lifecycle, outcomes
from cruft_sched.core.audit import void_line
from cruft_sched.core.awaits import InputAwait, TimerAwait, ToolAwait
from cruft_sched.core.lifecycle import (
    Cancelled,
    Completed,
    Expired,
    Failed,
    Interrupted,
    Settled,
    Suspended,
    TurnStarted,
    advance,
)
from cruft_sched.core.manifest import AuditHead, Manifest
from cruft_sched.core.outcomes import BudgetError, InputTimeoutError, TurnOutcome
from cruft_sched.core.policy import RESERVED_CONTEXT_KEY, Budgets, Policy
from cruft_sched.core.redaction import Redactor, redactor_of
from cruft_sched.core.tool_lines import settled_lines
from cruft_sched.errors import CruftError, RefusedError, StorageError, SystemFailedError, UnavailableError
from cruft_sched.ops import isolation
from cruft_sched.ops.asked import asked
from cruft_sched.ops.audited_turn import run_audited
from cruft_sched.ops.authority import of_job
from cruft_sched.ops.bound import Bound, read_bound
from cruft_sched.ops.call_tool import gate_of
from cruft_sched.ops.project import language_of
from cruft_sched.ops.reports import Command, Moved, Report, moved, over_budget
from cruft_sched.ops.settle import settle_tool
from cruft_sched.ops.stopping import TOLD_TO_END, Stop, stopper
from cruft_sched.ops.tick import check_ready
from cruft_sched.stores.audit_log import AuditLog
from cruft_sched.stores.file import HeldJob
from cruft_sched.turns.turn import Turn


def advance_held(held: HeldJob, clock: Clock, stop: Stop) -> Report:
    """Advance a job whose lock is held by one turn."""
    manifest = held.load()
    if held.cancel_request(manifest) is not None:
        if manifest.terminal:
            held.drop_cancel_request()
        else:
            return moved(apply_cancel(held, manifest, clock.now_ms()), "agent_scheduler_tick")
    if manifest.status == "running":  # and its lock was free: the driver died, and its child with it
        manifest = _recover(held, manifest, clock.now_ms())
        if manifest.terminal:
            return moved(manifest, "agent_scheduler_tick", manifest.timeline[-1].turn_id)
    sleeping = check_ready(manifest, clock.now_ms())
    if sleeping is not None:
        return sleeping
    return go_on(held, manifest, clock, stop, "agent_scheduler_tick")


def go_on(
    held: HeldJob, manifest: Manifest, clock: Clock, stop: Stop, command: Command, *, answered: bool = False
) -> Report:
    """The next turn of a job that can move: bound sources, budgets, the await's settlement, the turn, its outcome.

    What a tool or a person gave (`answered`: just now) is committed before the turn's process is started, and the start
    when that is confined: where it cannot be, no outcome is lost, and no turn is counted.
    """
    bound = read_bound(held.store, manifest)
    now = clock.now_ms()
    over = _over(manifest, bound.policy.budgets, now)
    if over is not None:
        return over_budget(held.commit(advance(manifest, Expired(error=over), now)), over)
    # Before any tool runs: an outcome that cannot be kept is not produced.
    with AuditLog(bound.audit_path, bound.policy.audit_log_max_bytes) as log:
        redactor = redactor_of(manifest)
        try:
            settled = _settle(held, manifest, bound, clock, stop, redactor)
        except RefusedError as refused:  # it names the tool, which the agent chose
            raise RefusedError(redactor.text(refused.what), refused.todo) from None
        settled = settled if settled is manifest else redactor.manifest(settled)
        waits = settled.wait is not None and settled.wait.done is None  # for the next attempt
        if settled.terminal or waits or held.cancel_request(settled) is not None:
            return moved(_end_early(held, settled, clock.now_ms()), command)
        if answered or (settled is not manifest and isinstance(settled.wait, ToolAwait)):
            settled = held.commit(settled)
        return _run_turn(held, settled, bound, log, clock, stop, command, redactor)


def apply_cancel(held: HeldJob, manifest: Manifest, now: int, audit: AuditHead | None = None) -> Manifest:
    """Commit the cancel that somebody asked for. `audit` is where the turn stands that was killed for it."""
    request = held.cancel_request(manifest)
    event = Cancelled(reason=request.reason if request is not None else None, audit=audit)
    if manifest.status == "running" and audit is None:
        with suppress(CruftError):  # a cancel needs no policy: without it, the log keeps a run that never ended
            _void(manifest, read_bound(held.store, manifest), now)
    cancelled = held.commit(advance(manifest, event, now))
    held.drop_cancel_request()
    return cancelled


def _end_early(held: HeldJob, manifest: Manifest, now: int) -> Manifest:
    """A job that has no turn now: cancelled in the meantime, failed by the deadline of its input, or to try its tool
    again."""
    if held.cancel_request(manifest) is not None and not manifest.terminal:
        return apply_cancel(held, manifest, now)
    return held.commit(manifest)


def _over(manifest: Manifest, budgets: Budgets, now: int) -> BudgetError | None:
    """The first budget of the whole job that the next turn would exceed."""
    attempted = {
        "max_scheduler_turns": (budgets.max_scheduler_turns, manifest.turn_cursor + 1),
        "max_age_ms": (budgets.max_age_ms, now - manifest.created_ms),
    }
    for budget, (limit, used) in attempted.items():
        if limit is not None and used > limit:
            return BudgetError(budget=budget, limit=limit, attempted=used)
    return None


def _settle(held: HeldJob, manifest: Manifest, bound: Bound, clock: Clock, stop: Stop, redactor: Redactor) -> Manifest:
    """The job with its await settled, not committed yet. One that was settled before keeps its outcome."""
    wait = manifest.wait
    if wait is None or wait.done is not None:
        return manifest
    now = clock.now_ms()
    match wait:
        case TimerAwait():
            return advance(manifest, Settled(name="fired", wait=awaits.fired(wait, now)), now)
        case ToolAwait():
            return settle_tool(held, manifest, wait, bound.policy, clock, stop, redactor)
        case InputAwait(payload=payload) if payload.on_timeout == "fail":
            error = InputTimeoutError(deadline_ms=payload.deadline_ms or now)
            return advance(manifest, Failed(error=error), now)
        case InputAwait():
            return advance(manifest, Settled(name="timed_out", wait=awaits.unanswered(wait, now)), now)


def _run_turn(
    held: HeldJob,
    manifest: Manifest,
    bound: Bound,
    log: AuditLog,
    clock: Clock,
    stop: Stop,
    command: Command,
    redactor: Redactor,
) -> Moved:
    started = advance(manifest, TurnStarted(), clock.now_ms())
    turn, name = _turn(started, bound), _turn_id(started)
    stopped = stopper(held, started, stop)
    gate = gate_of(
        bound.policy,
        started.uid,
        name,
        scheduled=True,
        authority=lambda: of_job(held.store, started, bound.policy),
    )
    begun: list[Manifest] = []

    def begin() -> None:
        begun.append(held.commit(started))

    try:
        told = settled_lines(started.wait, bound.policy.budgets.max_event_bytes)
        outcome, head = run_audited(turn, name, _start_line(started), log, clock, stopped, gate, begin, redactor, told)
        _check_not_told_to_end(outcome)
        if head is None:  # cancelled before it began
            return moved(apply_cancel(held, manifest, clock.now_ms()), command)
        if not begun:  # its time was over before its process was ready
            begin()
        committed = _commit(held, begun[0], outcome, head, clock.now_ms(), redactor, bound.policy)
    except (StorageError, SystemFailedError, UnavailableError, KeyboardInterrupt) as broken_off:
        _give_up(held, name, log, str(broken_off) or "Ctrl-C", clock.now_ms())
        raise
    report = moved(committed, command, name, outcome.child_exit_code)
    return replace(report, warning=isolation.warning(bound.policy, turn.language))


def _check_not_told_to_end(outcome: TurnOutcome) -> None:
    if outcome.ending == outcomes.Stopped(reason="interrupted"):
        raise KeyboardInterrupt(TOLD_TO_END)


def _commit(
    held: HeldJob,
    running: Manifest,
    outcome: TurnOutcome,
    head: AuditHead,
    now: int,
    redactor: Redactor,
    policy: Policy,
) -> Manifest:
    """Commit the outcome of a turn, unless the job was cancelled while it ran."""
    if held.cancel_request(running) is not None:
        return apply_cancel(held, running, now, head)
    return held.commit(redactor.manifest(_after(held, running, outcome, head, now, policy)))


def _after(
    held: HeldJob, running: Manifest, outcome: TurnOutcome, head: AuditHead, now: int, policy: Policy
) -> Manifest:
    """The job after its turn: state, counts and await together, or the failure alone."""
    match outcome.ending:
        case outcomes.Suspended(request=request):
            wait = asked(request, running, _turn_id(running), policy, held.store.store_key(), now)
            event = Suspended(wait=wait, state=outcome.state, events=outcome.events, tools=outcome.tools, audit=head)
            return advance(running, event, now)
        case outcomes.Completed(result=result):
            done = Completed(result=result, state=outcome.state, events=outcome.events, tools=outcome.tools, audit=head)
            return advance(running, done, now)
        case outcomes.Failed(error=error):
            return advance(running, Failed(error=error, audit=head), now)
        case outcomes.Stopped():  # cancelled, and the request has gone again: only a person can have removed it
            return advance(running, Cancelled(audit=head), now)


def _recover(held: HeldJob, manifest: Manifest, now: int) -> Manifest:
    """Take a job back to where its interrupted turn started, and declare the run of that turn void."""
    _void(manifest, read_bound(held.store, manifest), now)
    return held.commit(lifecycle.recover(manifest, now))


def _void(running: Manifest, bound: Bound, now: int) -> None:
    with AuditLog(bound.audit_path) as log:
        log.append(void_line(_turn_id(running), running.uid, now))
        log.sync()


def _give_up(held: HeldJob, turn_id: str, log: AuditLog, reason: str, now: int) -> None:
    """Take the job back to where its turn started, if that can be written; else the next tick finds it running.

    What counts is what is on the disk: a commit that failed in its last step, the fsync of the folder, stands there.
    """
    with suppress(CruftError):
        job = held.load()
        if job.active_turn_id != turn_id:
            return
        log.append(void_line(turn_id, job.uid, now))
        log.sync()
        held.commit(advance(job, Interrupted(reason=reason), now))


def _turn_id(running: Manifest) -> str:
    if running.active_turn_id is None:
        raise ValueError(f"job {running.job_id} is {running.status} and has no turn")
    return running.active_turn_id


def _turn(running: Manifest, bound: Bound) -> Turn:
    context = running.context
    if running.wait is not None:
        context = context | {RESERVED_CONTEXT_KEY: Raw(awaits.resume(running.wait))}
    return Turn(
        source=bound.agent,
        context=context,
        state=running.state,
        budgets=bound.policy.budgets,
        language=language_of(running.agent_path) or "",
        isolation=bound.policy.isolation,
        scheduled=True,
        modules=bound.admitted.modules,
        entry_module=bound.policy.entry_module or "",
        expected_events=bound.admitted.expected_events,
    )


def _start_line(running: Manifest) -> dict[str, str]:
    return {
        "job_id": running.job_id,
        "uid": running.uid,
        "policy_hash": running.policy_hash,
        "agent_hash": running.agent_hash,
    }
