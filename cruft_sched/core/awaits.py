"""What a suspended turn waits for. Each variant carries its own data; every kind settles in its own record."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

MAX_SLEEP_MS = 315_576_000_000
"""Ten years of 365.25 days: the longest wait there is."""


class WaitError(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A wait that went wrong, as the agent sees it. `unknown`: a tool that writes may or may not have run."""

    message: str
    disposition: Literal["error", "timeout", "unknown"]
    tool: str | None = None
    timeout_ms: int | None = None
    duration_ms: int | None = None
    late_result_suppressed: bool | None = None


class InvalidArgsError(WaitError, frozen=True, kw_only=True):
    """The tool did nothing, since its arguments are not what it takes."""


class DeniedError(WaitError, frozen=True, kw_only=True):
    """The tool did nothing, since the policy does not open what its arguments name."""


class Started(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="state", tag="started"):
    """A tool that writes was started (UTC epoch ms), and nothing more is known of it."""

    at_ms: int


class Done(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="state", tag="done"
):
    """The outcome: a result, or an error in its place. `by` is who answered an input."""

    at_ms: int
    result: Raw = Raw(b"null")
    error: WaitError | None = None
    by: str | None = None


Settlement = Started | Done


class TimerPayload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the agent asked to sleep (ms), and until when that is (UTC epoch ms)."""

    delay_ms: int
    deadline_ms: int


class ToolOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the agent asked of the call."""

    timeout_ms: int | None = None


class ToolPayload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tool, with what. The key is the same however often the call is tried."""

    tool: str
    args: Raw
    options: ToolOptions
    idempotency_key: str


class InputPayload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person is asked. The token itself is nowhere: `token_hash` is the hash of it."""

    kind: str
    payload: Raw
    token_hash: str
    schema: Raw
    deadline_ms: int | None
    on_timeout: Literal["resume", "fail"]


class _Await(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """The fields of every await. `run_id` is the turn that asked for it."""

    type: Literal["cruft_agent_scheduler_await"] = "cruft_agent_scheduler_await"
    version: Literal[1] = 1
    id: str
    run_id: str
    created_ms: int
    settlement: Settlement | None = None

    @property
    def kind(self) -> str:
        """`timer`, `tool` or `input`."""
        return str(self.__struct_config__.tag)

    @property
    def done(self) -> Done | None:
        """The outcome, if there is one."""
        return self.settlement if isinstance(self.settlement, Done) else None


class TimerAwait(_Await, frozen=True, kw_only=True, tag="timer"):
    """A turn sleeps until a deadline."""

    payload: TimerPayload


class ToolAwait(_Await, frozen=True, kw_only=True, tag="tool"):
    """A turn waits for a tool, which a tick runs."""

    payload: ToolPayload


class InputAwait(_Await, frozen=True, kw_only=True, tag="input"):
    """A turn waits for a person."""

    payload: InputPayload


Await = TimerAwait | ToolAwait | InputAwait


def deadline_ms(wait: Await) -> int | None:
    """When the wait ends by itself (UTC epoch ms); None: it does not."""
    return None if isinstance(wait, ToolAwait) else wait.payload.deadline_ms


def fired(timer: TimerAwait, now_ms: int) -> TimerAwait:
    """The timer, settled by its firing."""
    result = msgspec.json.encode({"deadline_ms": timer.payload.deadline_ms, "fired_ms": now_ms})
    return replace(timer, settlement=Done(at_ms=now_ms, result=Raw(result)))


def answered(wait: InputAwait, answer: Raw, by: str | None, now_ms: int) -> InputAwait:
    """The input, settled by a person's answer."""
    return replace(wait, settlement=Done(at_ms=now_ms, result=answer, by=by))


def unanswered(wait: InputAwait, now_ms: int) -> InputAwait:
    """The input, settled by its deadline."""
    error = WaitError(message="nobody answered before the deadline", disposition="timeout")
    return replace(wait, settlement=Done(at_ms=now_ms, error=error))


def tool_started(wait: ToolAwait, now_ms: int) -> ToolAwait:
    """The call of a tool that writes, just before it."""
    return replace(wait, settlement=Started(at_ms=now_ms))


def tool_done(wait: ToolAwait, outcome: Raw | WaitError, now_ms: int) -> ToolAwait:
    """The call, settled by its outcome."""
    if isinstance(outcome, WaitError):
        return replace(wait, settlement=Done(at_ms=now_ms, error=outcome))
    return replace(wait, settlement=Done(at_ms=now_ms, result=outcome))


def resume(wait: Await) -> bytes:
    """`context.scheduler_resume` of the turn after a settled await: JSON, with the error in place of the result where
    it went wrong, and without the token's hash."""
    done = wait.done
    if done is None:
        raise ValueError(f"await {wait.id} is not settled")
    told = msgspec.to_builtins(wait, builtin_types=(Raw,))
    told["payload"].pop("token_hash", None)
    outcome = {"result": done.result} if done.error is None else {"error": done.error}
    return msgspec.json.encode({"kind": wait.kind, "await": told, **outcome})
