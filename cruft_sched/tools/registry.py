"""The catalogue: every tool that an agent can call, what it takes, and what it does. A literal table.

A tool's own module is imported when it is called: a tick that calls none pays for none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Raw, Struct

from cruft_sched.core.answers import answer_fault
from cruft_sched.core.awaits import InvalidArgsError, WaitError

if TYPE_CHECKING:
    from cruft_sched.tools.authority import Authority

Effect = Literal["read", "write"]
"""`write`: it changes something outside."""

ANYTHING: dict[str, Any] = {}


def nothing() -> Authority:
    """No authority over the disk."""
    from cruft_sched.tools.authority import Authority

    return Authority()


class Call(Struct, frozen=True, kw_only=True):
    """One call. `timeout_ms` is already bounded by the policy; the key is the same however often the call is tried."""

    args: Any
    timeout_ms: int | None
    timeout_limit_ms: int
    idempotency_key: str
    max_result_bytes: int = 1 << 20
    authority: Callable[[], Authority] = nothing
    """What of the disk it may touch. Asked for by tools that do."""
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

    run: Callable[[Call], Raw | WaitError]
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


def _of(module: str) -> Callable[[Call], Raw | WaitError]:
    """The function of a tool's module, which is imported when it is called."""

    def run(call: Call) -> Raw | WaitError:
        outcome: Raw | WaitError = import_module(f"cruft_sched.tools.{module}").run(call)
        return outcome

    return run


_TEXT = {"type": "string"}
_SIZE = {"type": "integer", "minimum": 0}
_READS = ("fs_read", "fs_read_include", "fs_read_exclude")


def _fields(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object that has these fields, and no others."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


TOOLS: dict[str, Tool] = {
    "echo": Tool(run=_of("echo"), about="gives its arguments back"),
    "fail": Tool(run=_of("fail"), about="always goes wrong, in the same way"),
    "slow": Tool(
        run=_of("slow"),
        about="takes `delay_ms` and gives `value` back; longer than its `timeout_ms` (250), it times out",
        args={"type": "object", "properties": {"delay_ms": _SIZE, "value": {}}},
        checkable=("ok", "value"),
    ),
    "readFile": Tool(
        run=_of("read_file"),
        about="gives a text file below one of `fs_read`, or a page of it",
        needs=_READS,
        args=_fields("path", path=_TEXT, offset=_SIZE, limit={"type": "integer", "minimum": 1}),
        checkable=("text", "bytes"),
    ),
    "listFiles": Tool(
        run=_of("list_files"),
        about="lists the files that `readFile` could read",
        needs=_READS,
        args=_fields(
            path=_TEXT,
            glob={"type": "string", "maxLength": 1000},
            after=_TEXT,
            limit={"type": "integer", "minimum": 1, "maximum": 10_000},
        ),
        checkable=("entries",),
    ),
    "writeArtifact": Tool(
        run=_of("write_artifact"),
        about="writes a text file below one of `fs_write`, whole or not at all",
        effect="write",
        needs=("fs_write",),
        args=_fields("path", "text", path=_TEXT, text=_TEXT, overwrite={"type": "boolean"}),
        checkable=("bytes", "hash"),
    ),
}


def catalogue() -> dict[str, Tool]:
    """Every tool by its name."""
    return TOOLS


def args_fault(name: str, tool: Tool, args: Any) -> InvalidArgsError | None:
    """What is wrong with the arguments of a call, with the JSON path. Nothing has run."""
    fault = answer_fault(args, tool.args)
    if fault is None:
        return None
    return InvalidArgsError(message=f"the arguments of {name} are refused: {fault}", disposition="error", tool=name)


def perform(name: str, tool: Tool, call: Call, max_result_bytes: int) -> Raw | WaitError:
    """Check a call's arguments, and run the tool. Whatever it does, the outcome is one that a job can keep."""
    fault = args_fault(name, tool, call.args)
    if fault is not None:
        return fault
    try:
        outcome = tool.run(call)
    except Exception as error:  # a tool that raises is an answer to the agent, never a lost job
        return WaitError(message=f"{type(error).__name__}: {error}"[:2000], disposition="error", tool=name)
    if isinstance(outcome, Raw) and len(bytes(outcome)) > max_result_bytes:
        what = f"its result is {len(bytes(outcome))} bytes, and max_tool_result_bytes is {max_result_bytes}"
        return WaitError(message=what, disposition="error", tool=name)
    return outcome


def as_json(value: object) -> Raw:
    """A result, as the JSON that the manifest keeps."""
    return Raw(msgspec.json.encode(value))
