"""Run one turn with its lines in the audit log, durable before anybody commits its outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import to_builtins

from cruft_sched.clock import Clock
from cruft_sched.core.audit import Chain
from cruft_sched.core.manifest import AuditHead
from cruft_sched.core.outcomes import Completed, Ending, Failed, Stopped, Suspended, TurnOutcome
from cruft_sched.stores.audit_log import AuditLog
from cruft_sched.turns.protocol import Level
from cruft_sched.turns.session import Gate, no_tools
from cruft_sched.turns.turn import Turn, run_turn


def run_audited(
    turn: Turn,
    run_id: str,
    start: Mapping[str, Any],
    log: AuditLog,
    clock: Clock,
    stop: Callable[[], Stopped | None] = lambda: None,
    gate: Gate = no_tools,
) -> tuple[TurnOutcome, AuditHead]:
    """Run `turn`; `start` are the fields of its first line, which says too how far its process is confined, and `gate`
    its tools. Raises StorageError where the log cannot be written, and then nothing of the turn counts."""
    chain = Chain(run_id, start.get("uid"))
    lines: list[bytes] = []  # as many as come at once are written at once: a write for each is half the cost of a turn

    def line(kind: str, fields: Mapping[str, Any]) -> None:
        lines.append(chain.line(kind, clock.now_ms(), fields))

    def note(kind: str, fields: Mapping[str, Any]) -> None:
        if not chain.started:  # it came to its end before it was ready
            line("run_start", start)
        line(kind, fields)

    def append() -> None:
        if lines:
            log.append(b"".join(lines))
            lines.clear()

    def ready(level: Level) -> None:
        line("run_start", {**start, **to_builtins(level)})

    outcome = run_turn(turn, note, stop, ready, gate=gate, pause=append)
    for kind, fields in _last_lines(outcome):
        note(kind, fields)
    append()
    log.sync()
    return outcome, chain.head


def _last_lines(outcome: TurnOutcome) -> list[tuple[str, dict[str, Any]]]:
    status, more = _last_line(outcome.ending)
    counts = {"events": outcome.events, "tools": outcome.tools, "child_exit_code": outcome.child_exit_code}
    last = ("run_end", {"status": status, **counts, **more})
    if isinstance(outcome.ending, Suspended):
        return [("scheduler_await", {"request": outcome.ending.request}), last]
    return [last]


def _last_line(ending: Ending) -> tuple[str, dict[str, Any]]:
    match ending:
        case Suspended():
            return "suspended", {}
        case Completed():
            return "ok", {"result": ending.result}
        case Failed():
            return "error", {"error": ending.error}
        case Stopped():
            return ending.reason, {}
