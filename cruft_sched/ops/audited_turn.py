"""Run one turn with its lines in the audit log, durable before anybody commits its outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from cruft_sched.clock import Clock
from cruft_sched.core.audit import Chain
from cruft_sched.core.manifest import AuditHead
from cruft_sched.core.outcomes import Completed, Ending, Failed, Stopped, Suspended, TurnOutcome
from cruft_sched.core.redaction import Redactor
from cruft_sched.core.tool_lines import Line
from cruft_sched.stores.audit_log import AuditLog
from cruft_sched.turns.protocol import Level
from cruft_sched.turns.session import Gate, no_tools
from cruft_sched.turns.turn import Turn, run_turn

_KEPT_BYTES = 256 << 10
_KEPT_S = 0.5
_BEFORE_AN_EFFECT = frozenset(("tool_call",))
"""Lines that say what is about to be done, so they must stand in the log first."""


def run_audited(
    turn: Turn,
    run_id: str,
    start: Mapping[str, Any],
    log: AuditLog,
    clock: Clock,
    stop: Callable[[], Stopped | None] = lambda: None,
    gate: Gate = no_tools,
    begin: Callable[[], None] = lambda: None,
    redactor: Redactor | None = None,
    first: Sequence[Line] = (),
) -> tuple[TurnOutcome, AuditHead | None]:
    """Run `turn`; `start` are the fields of its first line, which says too how far its process is confined, `first` are
    lines that come after that, and `gate` opens its tools. What the `redactor` masks is masked in the lines, and in the
    outcome's result or error. `begin` is called when the process is confined, before any agent code runs. Raises
    StorageError where the log cannot be written, and then nothing of the turn counts. A turn that was stopped before it
    began has no line.
    """
    masks = redactor or Redactor()
    masks.learn_all(turn.context)
    masks.learn_all(turn.state)
    run = _Run(run_id, [("run_start", dict(start)), *first], log, clock, begin, masks)
    outcome = run_turn(turn, run.note, stop, run.ready, gate=gate, pause=run.pause, learn=masks.learn)
    outcome = replace(outcome, ending=masks.ending(outcome.ending))
    if isinstance(outcome.ending, Stopped) and not run.chain.started:
        return outcome, None
    for kind, fields in _last_lines(outcome):
        run.note(kind, fields)
    run.append()
    log.sync()
    return outcome, run.chain.head


class _Run:
    """The lines of one run. A write for each would be half the cost of a turn, so some are kept back for a while."""

    def __init__(
        self,
        run_id: str,
        first: Sequence[Line],
        log: AuditLog,
        clock: Clock,
        begin: Callable[[], None],
        masks: Redactor,
    ) -> None:
        (_, start), *_ = first
        self.chain = Chain(run_id, start.get("uid"))
        self._first = first
        self._log = log
        self._clock = clock
        self._begin = begin
        self._masks = masks
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._append_at = time.monotonic() + _KEPT_S

    def ready(self, level: Level) -> None:
        self._begin()
        self._start(to_builtins(level))

    def note(self, kind: str, fields: Mapping[str, Any]) -> None:
        if not self.chain.started:  # it came to its end before it was ready
            self._start({})
        self._add(kind, self._masks.own(fields))
        if kind in _BEFORE_AN_EFFECT:
            self.append()

    def pause(self) -> None:
        """Append what was kept back, if that is much, or old. Short turns have it all in one write."""
        if self._kept_bytes > _KEPT_BYTES or time.monotonic() > self._append_at:
            self.append()

    def append(self) -> None:
        """Append all that was kept back."""
        if self._kept:
            self._log.append(b"".join(self._kept))
        self._kept, self._kept_bytes, self._append_at = [], 0, time.monotonic() + _KEPT_S

    def _start(self, level: Mapping[str, Any]) -> None:
        (kind, start), *rest = self._first
        self._add(kind, {**start, **level})
        for kind, fields in rest:
            self._add(kind, self._masks.own(fields))

    def _add(self, kind: str, fields: Mapping[str, Any]) -> None:
        line = self.chain.line(kind, self._clock.now_ms(), fields)
        self._kept.append(line)
        self._kept_bytes += len(line)


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
