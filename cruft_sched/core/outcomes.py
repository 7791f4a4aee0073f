"""How a turn ends. Errors are data: they stand in the manifest, in the audit log and in messages."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct

from cruft_sched.core.awaits import Duration, Retry

NULL = Raw(b"null")


class _Error(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """What failed a job; `kind` says which of the variants it is."""


class AgentError(_Error, frozen=True, kw_only=True, tag="agent_error"):
    """The agent's own code threw."""

    name: str
    message: str
    stack: str

    def __str__(self) -> str:
        return f"the agent threw {self.name}: {self.message}"


class BudgetError(_Error, frozen=True, kw_only=True, tag="budget_exceeded"):
    """A budget was hit: its name in the policy, its limit, and what was attempted, in the budget's own unit."""

    budget: str
    limit: int
    attempted: int

    def __str__(self) -> str:
        return f"the budget {self.budget} was exceeded (limit {self.limit}, attempted {self.attempted})"


class RequestError(_Error, frozen=True, kw_only=True, tag="bad_request"):
    """The agent asked for a wait that cannot be had."""

    message: str

    def __str__(self) -> str:
        return self.message


class EventError(_Error, frozen=True, kw_only=True, tag="bad_event"):
    """The agent emitted an event that is none of the policy's `expected_events`."""

    message: str

    def __str__(self) -> str:
        return self.message


class ChildError(_Error, frozen=True, kw_only=True, tag="child_failed"):
    """The turn's process died, or said something that is not in the protocol."""

    message: str

    def __str__(self) -> str:
        return self.message


class InterruptionError(_Error, frozen=True, kw_only=True, tag="interrupted"):
    """The driver died in the turn, this many times in a row."""

    times: int

    def __str__(self) -> str:
        return f"the turn was interrupted {self.times} times in a row"


class InputTimeoutError(_Error, frozen=True, kw_only=True, tag="input_timeout"):
    """Nobody answered in time, and the agent had asked to fail then (`on_timeout: "fail"`)."""

    deadline_ms: int

    def __str__(self) -> str:
        return "nobody answered before the deadline of the input"


TurnError = AgentError | BudgetError | RequestError | EventError | ChildError | InterruptionError | InputTimeoutError

ToolName = Annotated[str, Meta(min_length=1, max_length=200)]


class _Request(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """What the agent asks to wait for."""


class Sleep(_Request, frozen=True, kw_only=True, tag="sleep"):
    """For a while (ms)."""

    delay_ms: Duration


class SleepUntil(_Request, frozen=True, kw_only=True, tag="sleep_until"):
    """Until an instant (UTC epoch ms)."""

    deadline_ms: Annotated[int, Meta(ge=0, lt=1 << 53)]


class CallTool(_Request, frozen=True, kw_only=True, tag="tool"):
    """For a tool's outcome. `timeout_ms` is the agent's wish; the policy's `tool_timeout_ms` bounds it."""

    tool: ToolName
    args: Raw
    timeout_ms: Duration | None = None
    retry: Retry | None = None


class Ask(_Request, frozen=True, kw_only=True, tag="input"):
    """For a person's answer, which must be of `schema`, for `timeout_ms` at most (None: for ever)."""

    input_kind: Annotated[str, Meta(min_length=1, max_length=200)]
    payload: Raw
    schema: Raw = NULL
    timeout_ms: Duration | None = None
    on_timeout: Literal["resume", "fail"] = "resume"


Request = Sleep | SleepUntil | CallTool | Ask


class Suspended(Struct, frozen=True, kw_only=True):
    """The turn ended in a wait."""

    request: Request


class Completed(Struct, frozen=True, kw_only=True):
    """The agent came to its end; `result` is what it gave to `close`."""

    result: Raw = NULL


class Failed(Struct, frozen=True, kw_only=True):
    """The turn failed; nothing of its state is kept."""

    error: TurnError


class Stopped(Struct, frozen=True, kw_only=True):
    """The driver killed the turn, because the job was cancelled or the driver itself was told to end."""

    reason: Literal["cancelled", "interrupted"]


Ending = Suspended | Completed | Failed | Stopped


class Denied(Struct, frozen=True, kw_only=True):
    """A call within a turn that the policy or the catalogue does not allow, as the agent sees it."""

    message: str
    tool: str
    disposition: Literal["denied"] = "denied"


class TurnOutcome(Struct, frozen=True, kw_only=True):
    """All that a turn leaves: its ending, the state it would keep, what it counted, how its process exited."""

    ending: Ending
    state: dict[str, Raw]
    events: int
    tools: int = 0
    """Tools that were called within the turn."""
    child_exit_code: int
