"""Run one turn of an agent, start to end."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from cruft_sched.core.outcomes import BudgetError, Ending, Failed, Stopped, TurnOutcome
from cruft_sched.core.policy import Budgets, Isolation
from cruft_sched.turns import wire
from cruft_sched.turns.launcher import Limits, TurnStoppedError, Wall, run_child
from cruft_sched.turns.protocol import Level
from cruft_sched.turns.session import (
    Gate,
    Granted,
    Learn,
    Outcome,
    Sink,
    TurnFailedError,
    TurnSession,
    no_tools,
    nothing_to_learn,
)

KILLED = 137
"""The exit code of a child that the driver killed."""


class Turn(Struct, frozen=True, kw_only=True):
    """All that one turn is given."""

    source: bytes
    context: dict[str, Raw]
    """`scheduler_resume` included, where the turn goes on from an await."""
    state: dict[str, Raw]
    budgets: Budgets
    language: str = "javascript"
    isolation: Isolation = "strict"
    scheduled: bool
    """Whether the agent sees `scheduler`."""
    modules: dict[str, bytes] = {}
    """What the agent may import: specifiers, and sources in its language."""
    entry_module: str = ""
    """The one of them that is imported before the agent's first line; none, where it is empty."""
    expected_events: dict[str, Any] | None = None
    """Where given, the events that there may be: their kinds, and the schemas they must hold to."""


def run_turn(
    turn: Turn,
    note: Sink,
    stop: Callable[[], Stopped | None] = lambda: None,
    on_ready: Callable[[Level], None] = lambda _level: None,
    *,
    gate: Gate = no_tools,
    pause: Callable[[], None] = lambda: None,
    learn: Learn = nothing_to_learn,
) -> TurnOutcome:
    """Run one turn in a process of its own; `note` receives what belongs into the audit log, as it happens, `stop` is
    asked a few times a second whether to kill it, and `on_ready` is told how far it is confined, before any agent code
    runs. `gate` says which tools it may call, and calls them. `pause` is called a few times a second. `learn` is
    shown each value before anything that may repeat it is noted.

    Whatever the agent does is an outcome. Raises SystemFailedError or UnavailableError where its process cannot run.
    """

    def perform(granted: Granted) -> Outcome:
        outcome = granted(wall.passed)
        wall.left_ms()  # a call that was given up has no outcome that the agent may see: the turn ends here
        return outcome

    session = TurnSession(
        turn.budgets,
        turn.state,
        note,
        may_suspend=turn.scheduled,
        on_ready=on_ready,
        expected_events=turn.expected_events,
        gate=gate,
        perform=perform,
        learn=learn,
    )
    limits = Limits(timeout_ms=turn.budgets.timeout_ms, max_line_bytes=session.max_line_bytes, stop=stop)
    wall = Wall(limits)
    ending: Ending
    try:
        code = run_child(_pack(turn), limits, session.on_line, wall, pause)
        ending = session.on_exit(code)
    except TurnFailedError as fault:
        code, ending = KILLED, Failed(error=fault.error)
    except TurnStoppedError as stopped:
        code, ending = KILLED, stopped.ending
    if isinstance(ending, Failed) and isinstance(ending.error, BudgetError):
        over = ending.error
        note("budget_exceeded", {"budget": over.budget, "limit": over.limit, "attempted": over.attempted})
    kept = turn.state if isinstance(ending, Failed | Stopped) else session.state
    return TurnOutcome(ending=ending, state=kept, events=session.events, tools=session.tools, child_exit_code=code)


def _pack(turn: Turn) -> bytes:
    budgets = turn.budgets
    head: dict[str, str | int] = {
        "language": turn.language,
        "isolation": turn.isolation,
        "driver": os.getpid(),
        "scheduled": int(turn.scheduled),
        "modules": len(turn.modules),
        "timeout_ms": budgets.timeout_ms,
        "max_rss_mb": budgets.max_rss_mb,
        "max_event_bytes": budgets.max_event_bytes,
        "max_state_bytes": budgets.max_state_bytes,
        "max_tool_arg_bytes": budgets.max_tool_arg_bytes,
        "max_microtasks": budgets.max_microtasks,
    }
    modules = [part for specifier, source in turn.modules.items() for part in (specifier.encode(), source)]
    if budgets.max_steps is not None:
        head["max_steps"] = budgets.max_steps
    state = [part for key, value in turn.state.items() for part in (msgspec.json.encode(key), bytes(value))]
    return wire.frame(
        wire.pack(head, [turn.source, msgspec.json.encode(turn.context), turn.entry_module.encode(), *modules, *state])
    )
