"""Run an agent once, without a job: one turn, its lines in the audit log, no `scheduler`."""

from __future__ import annotations

import os

from msgspec import UNSET, Raw, Struct, UnsetType

from cruft_sched.clock import Clock
from cruft_sched.core.outcomes import Completed, Failed, TurnError
from cruft_sched.ops.audited_turn import run_audited
from cruft_sched.ops.call_tool import gate_of
from cruft_sched.ops.isolation import warning
from cruft_sched.ops.project import admit, compact, language_of, read_project
from cruft_sched.stores.audit_log import AuditLog
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
    result: Raw | UnsetType = UNSET
    error: TurnError | UnsetType = UNSET
    warning: str | UnsetType = UNSET


def run(policy_path: str, clock: Clock) -> Ran:
    """Run the agent of a policy for one turn. Raises PolicyError, DataError, StorageError."""
    project = read_project(policy_path)
    sources = {path: source.data for path, source in project.admitted_sources.items()}
    admitted = admit(project.policy, project.policy_source.path, sources)
    run_id = f"run-{os.urandom(8).hex()}"
    turn = Turn(
        source=project.agent_source.data,
        context=compact(project.policy.context),
        state=compact(project.policy.state),
        budgets=project.policy.budgets,
        language=language_of(project.agent_source.path) or "",
        isolation=project.policy.isolation,
        scheduled=False,
        modules=admitted.modules,
        expected_events=admitted.expected_events,
    )
    start = {"policy_hash": project.policy_source.hash, "agent_hash": project.agent_source.hash}
    with AuditLog(project.audit_path, project.policy.audit_log_max_bytes) as log:
        gate = gate_of(project.policy, run_id, run_id, scheduled=False)
        outcome, _ = run_audited(turn, run_id, start, log, clock, gate=gate)
    ending = outcome.ending
    return Ran(
        run_id=run_id,
        status="failed" if isinstance(ending, Failed) else "completed",
        events=outcome.events,
        tools=outcome.tools,
        child_exit_code=outcome.child_exit_code,
        audit_log=project.audit_path,
        result=ending.result if isinstance(ending, Completed) else UNSET,
        error=ending.error if isinstance(ending, Failed) else UNSET,
        warning=warning(project.policy, turn.language) or UNSET,
    )
