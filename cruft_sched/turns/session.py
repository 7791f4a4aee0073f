"""The driver's book-keeping of one turn: each message checked against protocol and budgets, and noted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from cruft_sched.core import outcomes
from cruft_sched.core.answers import event_fault, schema_fault
from cruft_sched.core.depth import MAX_DEPTH, too_deep
from cruft_sched.core.outcomes import (
    NULL,
    AgentError,
    Ask,
    BudgetError,
    CallTool,
    ChildError,
    Ending,
    EventError,
    Request,
    RequestError,
    TurnError,
)
from cruft_sched.core.policy import Budgets
from cruft_sched.errors import UnavailableError
from cruft_sched.turns import protocol
from cruft_sched.turns.protocol import Level
from cruft_sched.turns.wire import EMPTY_STATE_BYTES, entry_bytes

_SUSPEND = b'{"type":"suspend"'

Sink = Callable[[str, Mapping[str, Any]], None]
"""Takes a line for the audit log: its kind and its fields."""


class TurnFailedError(Exception):
    """The turn is over, by the driver's decision."""

    def __init__(self, error: TurnError) -> None:
        super().__init__(str(error))
        self.error = error


class TurnSession:
    """Receives the lines of one child, in order."""

    def __init__(
        self,
        budgets: Budgets,
        state: dict[str, Raw],
        note: Sink,
        *,
        may_suspend: bool,
        on_ready: Callable[[Level], None] = lambda _level: None,
        expected_events: dict[str, Any] | None = None,
    ) -> None:
        self._may_suspend = may_suspend
        self._on_ready = on_ready
        self._expected_events = expected_events
        self._denials = 0
        self.state = dict(state)
        self._before = state
        self.events = 0
        self.ready = False
        self.ending: Ending | None = None
        self._budgets = budgets
        self._note = note
        self._state_bytes = EMPTY_STATE_BYTES + sum(_size(key, value) for key, value in state.items())

    @property
    def max_line_bytes(self) -> int:
        """A longer line is no message that these budgets allow."""
        budgets = self._budgets
        in_a_wait = 2 * budgets.max_tool_arg_bytes  # an input's payload, and its schema
        largest = max(budgets.max_event_bytes, budgets.max_state_bytes, protocol.MAX_RESULT_BYTES, in_a_wait)
        return largest + protocol.MAX_ENVELOPE_BYTES

    def on_line(self, line: bytes) -> None:
        """Take one line, newline left out. Raises TurnFailedError where it may not be."""
        envelope = 2 if line.startswith(_SUSPEND) else 1  # the message itself, and a request within it
        if too_deep(line, MAX_DEPTH + envelope):
            what = f"the agent gave a value that is nested more than {MAX_DEPTH} deep"
            raise TurnFailedError(RequestError(message=what))
        try:
            message = protocol.decode(line)
        except ValueError as error:
            if not self.ready:
                raise _unready(line) from None
            raise TurnFailedError(ChildError(message=str(error))) from None
        if self.ready == isinstance(message, protocol.Ready) or self.ending is not None:
            raise TurnFailedError(ChildError(message="the turn's process sent its messages out of order"))
        match message:
            case protocol.Ready():
                self.ready = True
                self._on_ready(message.level)
            case protocol.Emit():
                self._emit(message.event)
            case protocol.StateSet():
                self._state_set(message.key, message.value)
            case protocol.StateDelete():
                self._state_delete(message.key)
            case protocol.ImportDenial():
                self._within("max_events", self._budgets.max_events, self._denials + 1)
                self._denials += 1
                self._note("import_denial", {"specifier": message.specifier})
            case _:
                self.ending = self._end(message)

    def on_exit(self, exit_code: int) -> Ending:
        """How the turn ended, by its last message and its exit code: both must be right."""
        if isinstance(self.ending, outcomes.Failed):
            return self.ending
        if self.ending is not None and exit_code == 0:
            self._note_state()
            return self.ending
        if not self.ready:
            raise _unready(f"it said nothing, and exited with {exit_code}".encode())
        what = f"was killed by signal {exit_code - 128}" if exit_code > 128 else f"exited with code {exit_code}"
        if self.ending is None and exit_code == 0:
            what = "ended without a last message"
        return outcomes.Failed(error=ChildError(message=f"the turn's process {what}"))

    def _emit(self, event: Raw) -> None:
        self._within("max_event_bytes", self._budgets.max_event_bytes, len(bytes(event)))
        self._within("max_events", self._budgets.max_events, self.events + 1)
        if self._expected_events is not None:
            fault = event_fault(_readable(event, "emit: the event"), self._expected_events)
            if fault is not None:
                raise TurnFailedError(EventError(message=f"an event is not as the policy expects: {fault:.500}"))
        self.events += 1
        self._note("emit", {"event": event})

    def _state_set(self, key: str, value: Raw) -> None:
        old = _size(key, self.state[key]) if key in self.state else 0
        total = self._state_bytes - old + _size(key, value)
        self._within("max_state_bytes", self._budgets.max_state_bytes, total)
        self.state[key], self._state_bytes = value, total

    def _state_delete(self, key: str) -> None:
        if key in self.state:
            self._state_bytes -= _size(key, self.state.pop(key))

    def _note_state(self) -> None:
        """Note what the turn did to the state, key by key: the sum of it, which is what is kept, and is bounded."""
        for key, value in self.state.items():
            if self._before.get(key) != value:
                self._note("state_set", {"key": key, "bytes": len(bytes(value))})
        for key in self._before.keys() - self.state.keys():
            self._note("state_delete", {"key": key})

    def _end(self, message: protocol.Message) -> Ending:
        match message:
            case protocol.Suspend() if self._may_suspend:
                self._check_request(message.request)
                return outcomes.Suspended(request=message.request)
            case protocol.Complete():
                if len(bytes(message.result)) > protocol.MAX_RESULT_BYTES:
                    raise TurnFailedError(ChildError(message="the value given to close is larger than 1 MiB"))
                return outcomes.Completed(result=message.result)
            case protocol.Fail():
                thrown = message.error
                error = AgentError(name=thrown.name, message=thrown.message, stack=thrown.stack)
                return outcomes.Failed(error=error)
            case protocol.Over():
                limit = self._budgets.max_event_bytes
                return outcomes.Failed(
                    error=BudgetError(budget=message.budget, limit=limit, attempted=message.attempted)
                )
            case _:
                raise TurnFailedError(ChildError(message="the turn's process ended its turn with no ending"))

    def _check_request(self, request: Request) -> None:
        limit = self._budgets.max_tool_arg_bytes
        match request:
            case CallTool():
                self._within("max_tool_arg_bytes", limit, len(bytes(request.args)))
                _readable(request.args, "scheduler.callTool: args")
            case Ask():
                self._within("max_tool_arg_bytes", limit, len(bytes(request.payload)))
                self._within("max_tool_arg_bytes", limit, len(bytes(request.schema)))
                _readable(request.payload, "scheduler.waitForInput: the payload")
                fault = schema_fault(_readable(request.schema, "scheduler.waitForInput: options.schema"))
                if request.schema != NULL and fault is not None:
                    what = f"scheduler.waitForInput: options.schema is refused: {fault}"
                    raise TurnFailedError(RequestError(message=what))

    def _within(self, budget: str, limit: int, attempted: int) -> None:
        if attempted > limit:
            raise TurnFailedError(BudgetError(budget=budget, limit=limit, attempted=attempted))


def _readable(value: Raw, what: str) -> Any:
    """A value that is kept, read once to see that it can be: a number may be too large for any reader."""
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise TurnFailedError(RequestError(message=f"{what} cannot be read ({error})")) from None


def _unready(line: bytes) -> UnavailableError:
    """What the child said instead of `ready`: no agent code has run, and nothing is the agent's fault."""
    said, _, todo = line.decode(errors="replace")[:1000].partition("; ")
    return UnavailableError(f"the turn's process could not start: {said}", todo or "mend the installation")


def _size(key: str, value: Raw) -> int:
    return entry_bytes(msgspec.json.encode(key), bytes(value))
