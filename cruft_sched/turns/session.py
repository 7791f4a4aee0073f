"""The driver's book-keeping of one turn: each message checked against protocol and budgets, and noted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from cruft_sched.core import outcomes
from cruft_sched.core.answers import event_fault, schema_fault
from cruft_sched.core.awaits import DeniedError, InvalidArgsError, WaitError
from cruft_sched.core.depth import MAX_DEPTH, too_deep
from cruft_sched.core.outcomes import (
    NULL,
    AgentError,
    Ask,
    BudgetError,
    CallTool,
    ChildError,
    Denied,
    Ending,
    EventError,
    Request,
    RequestError,
    TurnError,
)
from cruft_sched.core.policy import Budgets
from cruft_sched.core.tool_lines import bounded, call_fields, kind_of
from cruft_sched.errors import UnavailableError
from cruft_sched.turns import protocol, wire
from cruft_sched.turns.protocol import Level
from cruft_sched.turns.wire import EMPTY_STATE_BYTES, entry_bytes

_SUSPEND = b'{"type":"suspend"'
_GO = wire.frame(b"")
"""The answer to `ready`: agent code may run."""

Sink = Callable[[str, Mapping[str, Any]], None]
"""Takes a line for the audit log: its kind and its fields."""

Outcome = Raw | WaitError
"""What a tool's call came to."""

Granted = Callable[[Callable[[], object]], Outcome]
"""Calls the tool. What it is given says, a few times a second, whether the outcome is still wanted."""

Gate = Callable[[CallTool], Denied | Granted]
"""Whether the agent may call a tool within its turn."""


Learn = Callable[[str, Raw], None]
"""Is shown what the turn gives, with the key it stands under (an empty one for none)."""


def nothing_to_learn(_key: str, _value: Raw) -> None:
    """Of a turn that has no secrets."""


def no_tools(call: CallTool) -> Denied:
    """The gate of a turn that has no tools."""
    return Denied(message=f'tool "{call.tool}" is not allowed by policy', tool=call.tool)


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
        gate: Gate = no_tools,
        perform: Callable[[Granted], Outcome] = lambda granted: granted(lambda: None),
        learn: Learn = nothing_to_learn,
    ) -> None:
        """`perform` makes a call that the gate has granted, and raises where the turn must end in it."""
        self._may_suspend = may_suspend
        self._on_ready = on_ready
        self._expected_events = expected_events
        self._gate = gate
        self._perform = perform
        self._learn = learn
        self.state = dict(state)
        self._before = state
        self.events = 0
        self.tools = 0
        self._counts = {"note": 0, "tool_call": 0, "import_denial": 0, "output": 0, "refused": 0}
        self._output_left = wire.MAX_OUTPUT_BYTES
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

    def on_line(self, line: bytes) -> bytes | None:
        """Take one line, newline left out, and return the answer it asks for. Raises TurnFailedError where it may not
        be."""
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
        return self._take(message)

    def _take(self, message: protocol.Message) -> bytes | None:
        match message:
            case protocol.Ready():
                self.ready = True
                self._on_ready(message.level)
                return _GO
            case protocol.Emit():
                self._emit(message.event)
            case protocol.Note():
                self._remark(message.note)
            case protocol.ToolCall():
                return self._call_tool(message)
            case protocol.ImportDenial():
                self._count("import_denial")
                self._note("import_denial", {"specifier": message.specifier})
            case protocol.Output():
                self._printed(message)
            case protocol.StateSet() | protocol.StateDelete() | protocol.StateReset():
                self._change_state(message)
            case protocol.Refused():
                self._refused(message)
            case _:
                self.ending = self._end(message)
        return None

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
        read = _readable(event, "emit: the event")
        if self._expected_events is not None:
            fault = event_fault(read, self._expected_events)
            if fault is not None:
                raise TurnFailedError(EventError(message=f"an event is not as the policy expects: {fault:.500}"))
        self.events += 1
        self._note("emit", {"event": event})

    def _printed(self, message: protocol.Output) -> None:
        """Keep what the agent printed, in as many lines as it may emit events; say once that there was more."""
        data = message.text.encode()
        last = self._counts["output"] == self._budgets.max_events
        truncated = last or len(data) > self._output_left
        if self._output_left >= 0 and self._counts["output"] <= self._budgets.max_events:
            kept = "" if last else data[: self._output_left].decode(errors="ignore")
            told = {"stream": message.stream, "text": kept}
            self._note("agent_output", told | {"truncated": True} if truncated else told)
        self._counts["output"] += 1
        self._output_left = -1 if truncated else self._output_left - len(data)

    def _remark(self, value: Raw) -> None:
        self._within("max_event_bytes", self._budgets.max_event_bytes, len(bytes(value)))
        self._count("note")
        _readable(value, "auditNote: the value")
        self._note("note", {"note": value})

    def _call_tool(self, message: protocol.ToolCall) -> bytes:
        """Call a tool while the child waits, and return what it is to read."""
        self._count("tool_call")
        self._within("max_tool_arg_bytes", self._budgets.max_tool_arg_bytes, len(bytes(message.args)))
        _readable(message.args, "callTool: args")
        self._learn("", message.args)
        call = CallTool(tool=message.tool, args=message.args, timeout_ms=message.timeout_ms)
        told = call_fields(call.tool, call.args, self._budgets.max_event_bytes)
        granted = self._gate(call)
        if isinstance(granted, Denied):
            self._note("tool_denial", {**told, "message": granted.message})
            return _answer({"error": granted})
        self._note("tool_call", told)
        self.tools += 1
        outcome = self._perform(granted)
        if isinstance(outcome, DeniedError):
            self._note("tool_denial", {**told, "message": outcome.message})
            return _answer({"error": Denied(message=outcome.message, tool=call.tool)})
        if isinstance(outcome, WaitError):
            self._note(kind_of(outcome), {"tool": call.tool, "error": outcome})
            return _answer({"error": _told(outcome)})
        self._learn("", outcome)
        self._note("tool_result", {"tool": call.tool, **bounded("result", outcome, self._budgets.max_event_bytes)})
        return _answer({"result": outcome})

    def _refused(self, message: protocol.Refused) -> None:
        """Note a budget of which the agent was told, so often at most as it may put events into the log."""
        limit = self._limit(message)
        if self._counts["refused"] < self._budgets.max_events:
            self._counts["refused"] += 1
            self._note("budget_exceeded", {"budget": message.budget, "limit": limit, "attempted": message.attempted})

    def _change_state(self, message: protocol.StateSet | protocol.StateDelete | protocol.StateReset) -> None:
        match message:
            case protocol.StateSet():
                self._state_set(message.key, message.value)
            case protocol.StateDelete():
                self._state_delete(message.key)
            case protocol.StateReset():
                self.state, self._state_bytes = {}, EMPTY_STATE_BYTES

    def _state_set(self, key: str, value: Raw) -> None:
        old = _size(key, self.state[key]) if key in self.state else 0
        total = self._state_bytes - old + _size(key, value)
        self._within("max_state_bytes", self._budgets.max_state_bytes, total)
        _readable(value, "state.set: the value")
        self._learn(key, value)
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
                _readable(message.result, "close: the value")
                return outcomes.Completed(result=message.result)
            case protocol.Fail():
                thrown = message.error
                error = AgentError(name=thrown.name, message=thrown.message, stack=thrown.stack)
                return outcomes.Failed(error=error)
            case protocol.Over():
                limit = self._limit(message)
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

    def _limit(self, message: protocol.Over | protocol.Refused) -> int:
        """The limit of a budget that the child says was exceeded, if it can have been."""
        limit: int | None = getattr(self._budgets, message.budget)
        if limit is None or message.attempted <= limit:
            raise TurnFailedError(ChildError(message="the turn's process told of a budget that was not exceeded"))
        return limit

    def _count(self, what: str) -> None:
        """Count messages of a kind, of which there may be as many as of events."""
        self._within("max_events", self._budgets.max_events, self._counts[what] + 1)
        self._counts[what] += 1

    def _within(self, budget: str, limit: int, attempted: int) -> None:
        if attempted > limit:
            raise TurnFailedError(BudgetError(budget=budget, limit=limit, attempted=attempted))


def _answer(fields: dict[str, Any]) -> bytes:
    return wire.frame(msgspec.json.encode(fields))


def _told(error: WaitError) -> dict[str, Any]:
    """The error as the child gets it: arguments that the tool does not take are a TypeError there."""
    fields: dict[str, Any] = msgspec.to_builtins(error)
    return fields | {"invalid_args": True} if isinstance(error, InvalidArgsError) else fields


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
