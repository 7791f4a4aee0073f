"""What a tool is, and what one call of it is given."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Raw, Struct

from cruft_sched.core.awaits import WaitError

if TYPE_CHECKING:
    from cruft_sched.tools.authority import Authority

Effect = Literal["read", "write"]
"""`write`: it changes something outside."""

Outcome = Raw | WaitError
"""What a call comes to: a result, which is JSON, or an error in its place."""

ANYTHING: dict[str, Any] = {}


def nothing() -> Authority:
    """No authority over the machine."""
    from cruft_sched.tools.authority import Authority

    return Authority()


class Call(Struct, frozen=True, kw_only=True):
    """One call. `timeout_ms` is what the agent wishes, and `timeout_limit_ms` what the policy gives; the key is the
    same however often the call is tried."""

    args: Any
    timeout_ms: int | None
    timeout_limit_ms: int
    idempotency_key: str
    max_result_bytes: int = 1 << 20
    authority: Callable[[], Authority] = nothing
    """What of the machine it may touch. Asked for by tools that do."""
    secrets: Mapping[str, str] = {}
    """By the name of the environment variable that holds it. Whatever the tool gives back is masked of them."""
    stop: Callable[[], object] = lambda: None
    """True-ish when the call's outcome will not be wanted: the job was cancelled."""

    @property
    def limit_ms(self) -> int:
        """How long the call may take."""
        return self.timeout_limit_ms if self.timeout_ms is None else min(self.timeout_ms, self.timeout_limit_ms)

    def pause(self, ms: int) -> None:
        """Wait, and look a few times a second whether the wait still has a sense."""
        until = time.monotonic() + ms / 1000
        while (left := until - time.monotonic()) > 0 and not self.stop():
            time.sleep(min(left, 0.1))


class Tool(Struct, frozen=True, kw_only=True):
    """`idempotent`: running it twice with one key has its effect once."""

    run: Callable[[Call], Outcome]
    effect: Effect = "read"
    idempotent: bool = False
    about: str = ""
    """One line for people."""
    args: dict[str, Any] = ANYTHING
    """The JSON Schema of the arguments, of the subset that answers have."""
    needs: tuple[str, ...] = ()
    """The policy's fields that it takes its authority from, beside `tools`."""
    checkable: tuple[str, ...] = ()
    """The fields of its result that a check can compare."""

    @property
    def repeatable(self) -> bool:
        """Whether a call that may have run can simply be run again."""
        return self.effect == "read" or self.idempotent


def as_json(value: object) -> Raw:
    """A result, as the JSON that the manifest keeps."""
    return Raw(msgspec.json.encode(value))
