"""Run an agent once, without a job: one turn, its lines in the audit log, no `scheduler`."""

from __future__ import annotations

import os
from contextlib import suppress

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cruft_sched.clock import Clock
from cruft_sched.core import ids
from cruft_sched.core.audit import void_line
from cruft_sched.core.outcomes import Completed, Failed, TurnError
from cruft_sched.core.redaction import Redactor
from cruft_sched.errors import DataError, StorageError
from cruft_sched.ops.audited_turn import run_audited
from cruft_sched.ops.authority import authority_of
from cruft_sched.ops.call_tool import gate_of
from cruft_sched.ops.context import parse_context
from cruft_sched.ops.isolation import warning
from cruft_sched.ops.places import check_session_place
from cruft_sched.ops.policy_paths import hash_executable
from cruft_sched.ops.project import Project, admit, beside, compact, language_of, read_project
from cruft_sched.stores.audit_log import AuditLog
from cruft_sched.stores.session import Session, SessionFile, hold_session, lock_path
from cruft_sched.tools.authority import Authority
from cruft_sched.turns.turn import Turn


class Ran(Struct, frozen=True, kw_only=True):
    """What `cruft agent run` prints."""

    type: str = "agent_run"
    schema_version: int = 1
    run_id: str
    status: str
    events: int
    tools: int
    child_exit_code: int
    audit_log: str
    session_file: str | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: TurnError | UnsetType = UNSET
    warning: str | UnsetType = UNSET


class RunOptions(Struct, frozen=True, kw_only=True):
    """What a command line gives in the place of the policy's own. Paths start at the working folder."""

    context: bytes | None = None
    run_id: str | None = None
    session_file: str | None = None
    audit_log: str | None = None


def run(policy_path: str, clock: Clock, options: RunOptions | None = None) -> Ran:
    """Run the agent of a policy for one turn. With a session, its state is the one that the run before left, and is
    kept for the next one if this one completes.

    Raises UsageError, PolicyError, DataError, BusyError, StorageError, UnavailableError.
    """
    options = options or RunOptions()
    project = read_project(policy_path, audit_log=options.audit_log)
    run_id = _run_id(project, options)
    context = compact(project.policy.context | parse_context(options.context))
    path = _session_path(project, options)
    if path is None:
        return _run_once(project, run_id, context, compact(project.policy.state), clock)
    with hold_session(path) as session:
        found = session.load()
        state = compact(project.policy.state) if found is None else found.state
        _check_size(project, state, path)
        return _run_once(project, run_id, context, state, clock, session)


def _run_id(project: Project, options: RunOptions) -> str:
    if options.run_id is not None:
        return ids.check_job_id(options.run_id, "run id")
    return project.policy.run_id or f"run-{os.urandom(8).hex()}"


def _session_path(project: Project, options: RunOptions) -> str | None:
    if options.session_file is not None:
        path = os.path.abspath(options.session_file)
    elif project.policy.session_file is not None:
        path = beside(project.policy_source.path, project.policy.session_file)
    else:
        return None
    check_session_place(path, project.audit_path, project.others)
    return path


def _check_size(project: Project, state: dict[str, Raw], path: str) -> None:
    size, limit = len(msgspec.json.encode(state)), project.policy.budgets.max_state_bytes
    if size > limit:
        what = f"the state in session {path} is {size} bytes long, and max_state_bytes is {limit}"
        raise DataError(what, "raise the budget, or give the session another path")


def _run_once(
    project: Project,
    run_id: str,
    context: dict[str, Raw],
    state: dict[str, Raw],
    clock: Clock,
    session: SessionFile | None = None,
) -> Ran:
    turn = _turn(project, context, state)
    uid = os.urandom(16).hex()  # two runs may have one id
    hashes = {"policy_hash": project.policy_source.hash, "agent_hash": project.agent_source.hash}
    with AuditLog(project.audit_path, project.policy.audit_log_max_bytes) as log:
        gate = gate_of(project.policy, uid, run_id, scheduled=False, authority=lambda: _authority(project, session))
        redactor = Redactor(project.policy.redact_fields)
        outcome, head = run_audited(turn, run_id, {"uid": uid, **hashes}, log, clock, gate=gate, redactor=redactor)
        if session is not None and head is not None and isinstance(outcome.ending, Completed):
            _keep(session, Session(state=outcome.state, audit=head), log, void_line(run_id, uid, clock.now_ms()))
    ending = outcome.ending
    return Ran(
        run_id=run_id,
        status="failed" if isinstance(ending, Failed) else "completed",
        events=outcome.events,
        tools=outcome.tools,
        child_exit_code=outcome.child_exit_code,
        audit_log=project.audit_path,
        session_file=session.path if session is not None else UNSET,
        result=ending.result if isinstance(ending, Completed) else UNSET,
        error=ending.error if isinstance(ending, Failed) else UNSET,
        warning=warning(project.policy, turn.language) or UNSET,
    )


def _authority(project: Project, session: SessionFile | None) -> Authority:
    others = [] if session is None else [session.path, lock_path(session.path)]
    return authority_of(project.policy, project.policy_source.path, project.audit_path, hash_executable, others)


def _keep(session: SessionFile, kept: Session, log: AuditLog, void: bytes) -> None:
    """Write the session. Where that fails, the run does not count, and the audit log says so, if it can."""
    try:
        session.save(kept)
    except StorageError:
        with suppress(StorageError):
            log.append(void)
            log.sync()
        raise


def _turn(project: Project, context: dict[str, Raw], state: dict[str, Raw]) -> Turn:
    sources = {path: source.data for path, source in project.admitted_sources.items()}
    admitted = admit(project.policy, project.policy_source.path, sources)
    return Turn(
        source=project.agent_source.data,
        context=context,
        state=state,
        budgets=project.policy.budgets,
        language=language_of(project.agent_source.path) or "",
        isolation=project.policy.isolation,
        scheduled=False,
        modules=admitted.modules,
        entry_module=project.policy.entry_module or "",
        expected_events=admitted.expected_events,
    )
