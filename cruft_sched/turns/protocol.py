"""What the child may say: one JSON object a line. A line that is not one of these fails the turn."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from cruft_sched.core.awaits import Duration
from cruft_sched.core.outcomes import Request, ToolName

_Attempted = Annotated[int, Meta(ge=0, le=1 << 62)]

MAX_RESULT_BYTES = 1 << 20
MAX_ENVELOPE_BYTES = 16 << 10
"""What a message may hold beside the value it carries: names, an error's texts."""


class Level(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How far a turn's process is confined: `process`, a process of its own with limits; `strict`, with seccomp, of a
    tier, and Landlock, of an ABI, and what became of the driver's identity."""

    isolation: Literal["strict", "process"]
    tier: Literal["strict", "stdlib"] | None = None
    landlock_abi: Annotated[int, Meta(ge=1)] | None = None
    identity: Literal["own", "dropped", "kept"] | None = None


class Ready(Struct, frozen=True, forbid_unknown_fields=True, tag="ready"):
    """The child is confined; agent code comes next."""

    level: Level


class Emit(Struct, frozen=True, forbid_unknown_fields=True, tag="emit"):
    """One event."""

    event: Raw


class StateSet(Struct, frozen=True, forbid_unknown_fields=True, tag="state_set"):
    """One value of the state."""

    key: str
    value: Raw


class StateDelete(Struct, frozen=True, forbid_unknown_fields=True, tag="state_delete"):
    """One value less."""

    key: str


class Output(Struct, frozen=True, forbid_unknown_fields=True, tag="output"):
    """What the agent printed."""

    stream: Literal["stdout", "stderr"]
    text: str


class ImportDenial(Struct, frozen=True, forbid_unknown_fields=True, tag="import_denial"):
    """An import that the policy does not admit."""

    specifier: Annotated[str, Meta(max_length=200)]


class StateReset(Struct, frozen=True, forbid_unknown_fields=True, tag="state_reset"):
    """No value any more."""


class Note(Struct, frozen=True, forbid_unknown_fields=True, tag="note"):
    """A remark of the agent's, for the audit log."""

    note: Raw


class ToolCall(Struct, frozen=True, forbid_unknown_fields=True, tag="tool_call"):
    """A tool, to be called while the child waits. It says nothing more before it has read the answer."""

    tool: ToolName
    args: Raw
    timeout_ms: Duration | None = None


class Refused(Struct, frozen=True, forbid_unknown_fields=True, tag="refused"):
    """A budget that the child saw, and that the agent was told of by an exception. The turn goes on."""

    budget: Literal["max_state_bytes", "max_tool_arg_bytes"]
    attempted: _Attempted


class Suspend(Struct, frozen=True, forbid_unknown_fields=True, tag="suspend"):
    """Last: the turn asks to wait."""

    request: Request


class Complete(Struct, frozen=True, forbid_unknown_fields=True, tag="complete"):
    """Last: the agent came to its end."""

    result: Raw


class Thrown(Struct, frozen=True, forbid_unknown_fields=True):
    """An exception of the agent's, as text."""

    name: Annotated[str, Meta(max_length=200)]
    message: Annotated[str, Meta(max_length=2000)]
    stack: Annotated[str, Meta(max_length=4000)]


class Fail(Struct, frozen=True, forbid_unknown_fields=True, tag="fail"):
    """Last: the agent threw."""

    error: Thrown


class Over(Struct, frozen=True, forbid_unknown_fields=True, tag="over"):
    """Last: a budget that the child saw first. The limit is the driver's own."""

    budget: Literal["max_event_bytes", "max_steps", "max_microtasks", "max_rss_mb"]
    attempted: _Attempted


_Within = Ready | Emit | Note | StateSet | StateDelete | StateReset | ToolCall | ImportDenial | Output | Refused
_Last = Suspend | Complete | Fail | Over
Message = _Within | _Last

_decoder = msgspec.json.Decoder(Message)


def decode(line: bytes) -> Message:
    """One message. Raises ValueError where the line is none."""
    try:
        line.decode()  # msgspec passes over the texts in a Raw value without a look at their encoding
        message = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the turn's process sent a message that is not in the protocol ({error})") from None
    if isinstance(message, Emit) and not bytes(message.event).startswith(b"{"):
        raise ValueError("the turn's process sent an event that is not an object")
    return message
