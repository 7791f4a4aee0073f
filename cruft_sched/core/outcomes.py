"""How a turn ends. Errors are data: they stand in the manifest, in the audit log and in messages."""

from __future__ import annotations

from msgspec import Raw, Struct

NULL = Raw(b"null")


class AgentError(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="agent_error"):
    """The agent's own code threw."""

    name: str
    message: str
    stack: str

    def __str__(self) -> str:
        return f"the agent threw {self.name}: {self.message}"


class BudgetError(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="budget_exceeded"
):
    """A budget was hit: its name in the policy, its limit, and what was attempted, in the budget's own unit."""

    budget: str
    limit: int
    attempted: int

    def __str__(self) -> str:
        return f"the budget {self.budget} was exceeded (limit {self.limit}, attempted {self.attempted})"


class ChildError(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="child_failed"):
    """The turn's process died, or said something that is not in the protocol."""

    message: str

    def __str__(self) -> str:
        return self.message


class InterruptionError(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="interrupted"
):
    """The driver died in the turn, this many times in a row."""

    times: int

    def __str__(self) -> str:
        return f"the turn was interrupted {self.times} times in a row"


TurnError = AgentError | BudgetError | ChildError | InterruptionError


class Sleep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="sleep"):
    """The agent asks to sleep for a while (ms)."""

    delay_ms: int


class SleepUntil(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="sleep_until"):
    """The agent asks to sleep until an instant (UTC epoch ms)."""

    deadline_ms: int


Request = Sleep | SleepUntil


class Suspended(Struct, frozen=True, kw_only=True):
    """The turn ended in a wait."""

    request: Request


class Completed(Struct, frozen=True, kw_only=True):
    """The agent came to its end; `result` is what it gave to `close`."""

    result: Raw = NULL


class Failed(Struct, frozen=True, kw_only=True):
    """The turn failed; nothing of its state is kept."""

    error: TurnError


Ending = Suspended | Completed | Failed


class TurnOutcome(Struct, frozen=True, kw_only=True):
    """All that a turn leaves: its ending, the state it would keep, what it counted, how its process exited."""

    ending: Ending
    state: dict[str, Raw]
    events: int
    child_exit_code: int
