"""What a suspended turn waits for. Each variant carries its own data; every kind settles in its own record."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

MAX_SLEEP_MS = 315_576_000_000
"""Ten years of 365.25 days: the longest wait there is."""

MAX_ATTEMPTS = 100
MAX_BACKOFF_MS = 3_600_000
"""A backoff doubles with each attempt, up to an hour, or to what was asked for at first if that is longer."""

Duration = Annotated[int, Meta(ge=0, le=MAX_SLEEP_MS)]


class WaitError(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A wait that went wrong, as the agent sees it. `unknown`: a tool that writes may or may not have run; `denied`:
    it did not, since the policy, or a person, does not allow it."""

    message: str
    disposition: Literal["error", "timeout", "unknown", "denied"]
    tool: str | None = None
    timeout_ms: int | None = None
    duration_ms: int | None = None
    late_result_suppressed: bool | None = None
    late_result: str | None = None
    """The hash of a result that came after its time, where it was kept."""


class InvalidArgsError(WaitError, frozen=True, kw_only=True):
    """The tool did nothing, since its arguments are not what it takes."""


class DeniedError(WaitError, frozen=True, kw_only=True):
    """The tool did nothing, since the policy does not open what its arguments name."""


def denied(message: str, tool: str) -> DeniedError:
    """What a tool gives back for a call that the policy does not open."""
    return DeniedError(message=message, disposition="denied", tool=tool)


class Started(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="state", tag="started"):
    """A tool that writes was started (UTC epoch ms), and nothing more is known of it."""

    at_ms: int


class Retrying(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="state", tag="retrying"):
    """So many attempts went wrong, the last one at `at_ms` with this error, and the next comes at `next_ms` (UTC epoch
    ms)."""

    at_ms: int
    attempts: int
    next_ms: int
    error: WaitError


class Done(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="state", tag="done"
):
    """The outcome: a result, or an error in its place. `by` is who gave it, where that was a person."""

    at_ms: int
    result: Raw = Raw(b"null")
    error: WaitError | None = None
    by: str | None = None
    attempts: int = 1


Settlement = Started | Retrying | Done


class TimerPayload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the agent asked to sleep (ms), and until when that is (UTC epoch ms)."""

    delay_ms: int
    deadline_ms: int


class Retry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a call that goes wrong is made, the first time included, and how long to wait after that (ms)."""

    max_attempts: Annotated[int, Meta(ge=1, le=MAX_ATTEMPTS)]
    backoff_ms: Duration = 1000


class ToolOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the agent asked of the call."""

    timeout_ms: int | None = None
    retry: Retry | None = None


class Approval(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person decided of a call, when (UTC epoch ms), and the arguments that the agent had proposed."""

    at_ms: int
    approved: bool
    by: str | None
    reason: str | None
    proposed: Raw


class ToolPayload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which tool, with what. The key is the same however often the call is tried."""

    tool: str
    args: Raw
    options: ToolOptions
    idempotency_key: str
    approval: Approval | None = None


class InputPayload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a person is asked. The token itself is nowhere: `token_hash` is the hash of it. `then` is the call that
    waits for leave."""

    kind: str
    payload: Raw
    token_hash: str
    schema: Raw
    deadline_ms: int | None
    on_timeout: Literal["resume", "fail"]
    then: ToolPayload | None = None


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
    """When the wait ends by itself (UTC epoch ms), or a tool is tried again; None: it does not."""
    if not isinstance(wait, ToolAwait):
        return wait.payload.deadline_ms
    return wait.settlement.next_ms if isinstance(wait.settlement, Retrying) else None


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


def tool_done(wait: ToolAwait, outcome: Raw | WaitError, now_ms: int, by: str | None = None) -> ToolAwait:
    """The call, settled by its outcome. `by` is who decided it, where nobody knew."""
    made = attempts(wait) + 1
    if isinstance(outcome, WaitError):
        return replace(wait, settlement=Done(at_ms=now_ms, error=outcome, by=by, attempts=made))
    return replace(wait, settlement=Done(at_ms=now_ms, result=outcome, by=by, attempts=made))


def attempts(wait: ToolAwait) -> int:
    """How often the call has gone wrong so far."""
    return wait.settlement.attempts if isinstance(wait.settlement, Retrying) else 0


def retried(wait: ToolAwait, error: WaitError, now_ms: int) -> ToolAwait | None:
    """The call after an attempt that went wrong, to be made again later; None where it is not to be."""
    retry, made = wait.payload.options.retry, attempts(wait) + 1
    if retry is None or made >= retry.max_attempts or error.disposition not in ("error", "timeout"):
        return None
    if isinstance(error, InvalidArgsError):
        return None
    backoff = min(retry.backoff_ms << (made - 1), max(retry.backoff_ms, MAX_BACKOFF_MS))
    return replace(wait, settlement=Retrying(at_ms=now_ms, attempts=made, next_ms=now_ms + backoff, error=error))


def as_call(wait: InputAwait, payload: ToolPayload) -> ToolAwait:
    """The tool call that a person has allowed, or has refused, in the place of the question."""
    return ToolAwait(id=wait.id, run_id=wait.run_id, created_ms=wait.created_ms, payload=payload)


def resume(wait: Await) -> bytes:
    """`context.scheduler_resume` of the turn after a settled await: JSON, with the error in place of the result where
    it went wrong, and without the token's hash."""
    done = wait.done
    if done is None:
        raise ValueError(f"await {wait.id} is not settled")
    told = msgspec.to_builtins(wait, builtin_types=(Raw,))
    told["payload"].pop("token_hash", None)
    told["payload"].pop("approval", None)  # it names people
    outcome = {"result": done.result} if done.error is None else {"error": done.error}
    return msgspec.json.encode({"kind": wait.kind, "await": told, **outcome})
