"""What the commands that move a job answer."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from cruft_sched.core.awaits import deadline_ms
from cruft_sched.core.manifest import Manifest, Status
from cruft_sched.core.outcomes import BudgetError, TurnError

Command = Literal["agent_scheduler_tick", "agent_scheduler_input"]


class NotReady(Struct, frozen=True, kw_only=True):
    """The job's timer has not reached its deadline. No turn was run, and nothing was written."""

    type: str = "agent_scheduler_tick"
    schema_version: int = 1
    job_id: str
    status: Status
    ready: bool = False
    deadline_ms: int
    now_ms: int


class Moved(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The job moved, and that is committed. `error` is what failed it; without a `turn_id` no turn was run."""

    type: str
    schema_version: int
    job_id: str
    status: Status
    turn_cursor: int
    turn_id: str | None = None
    child_exit_code: int | None = None
    deadline_ms: int | None = None
    token: str | None = None
    error: TurnError | None = None
    warning: str | None = None
    """What a person should know of how the turn ran, whatever came of it."""


class OverBudget(Struct, frozen=True, kw_only=True):
    """A budget of the whole job is used up, and the job is expired. The turn was not run, nor its pending tool."""

    type: str = "agent_scheduler_budget_exceeded"
    schema_version: int = 1
    job_id: str
    status: Status
    budget: str
    limit: int
    attempted: int
    attempted_turn: int


Report = NotReady | Moved | OverBudget


def moved(manifest: Manifest, command: Command, turn_id: str | None = None, exit_code: int | None = None) -> Moved:
    """The report of a job as it now stands."""
    return Moved(
        type=command,
        schema_version=1,
        job_id=manifest.job_id,
        status=manifest.status,
        turn_cursor=manifest.turn_cursor,
        turn_id=turn_id,
        child_exit_code=exit_code,
        deadline_ms=deadline_ms(manifest.wait) if manifest.wait is not None else None,
        error=manifest.error,
    )


def over_budget(manifest: Manifest, error: BudgetError) -> OverBudget:
    """The report of a job that has just expired."""
    return OverBudget(
        job_id=manifest.job_id,
        status=manifest.status,
        budget=error.budget,
        limit=error.limit,
        attempted=error.attempted,
        attempted_turn=manifest.turn_cursor + 1,
    )
