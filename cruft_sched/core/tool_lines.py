"""The lines of the audit log that tell of a tool's call."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from cruft_sched.core.awaits import Await, InvalidArgsError, ToolAwait, WaitError
from cruft_sched.core.sealing import digest

Line = tuple[str, dict[str, Any]]
"""A line's kind, and its fields."""


def kind_of(error: WaitError) -> str:
    """The kind of the line of a call that went wrong, but for one that was denied."""
    if isinstance(error, InvalidArgsError):
        return "tool_invalid_args"
    return "tool_timeout" if error.disposition == "timeout" else "tool_error"


def bounded(name: str, value: Raw, max_bytes: int) -> dict[str, Any]:
    """A field; where it would be longer than an event may be, its size and its hash instead."""
    data = bytes(value)
    if len(data) <= max_bytes:
        return {name: value}
    return {f"{name}_bytes": len(data), f"{name}_hash": digest(data)}


def call_fields(tool: str, args: Raw, max_bytes: int) -> dict[str, Any]:
    """Which tool was called, and with what."""
    return {"tool": tool, **bounded("args", args, max_bytes)}


def settled_lines(wait: Await | None, max_bytes: int) -> list[Line]:
    """What became of a durable call, for the turn that is told of it: what was proposed, what a person decided, what
    was executed, and its outcome."""
    if not isinstance(wait, ToolAwait) or wait.done is None:
        return []
    payload, done = wait.payload, wait.done
    whose = {"await_id": wait.id}
    called = call_fields(payload.tool, payload.args, max_bytes) | whose
    lines = approval_lines(wait, max_bytes)
    ending: dict[str, Any] = dict(whose)
    if done.by is not None:
        ending["by"] = done.by
    if done.attempts > 1:
        ending["attempts"] = done.attempts
    if isinstance(done.error, WaitError) and done.error.disposition == "denied":
        return [*lines, ("tool_denial", {**called, "message": done.error.message})]
    lines.append(("tool_call", called))
    if done.error is not None:
        return [*lines, (kind_of(done.error), {"tool": payload.tool, "error": done.error, **ending})]
    return [*lines, ("tool_result", {"tool": payload.tool, **bounded("result", done.result, max_bytes), **ending})]


def approval_lines(wait: ToolAwait, max_bytes: int) -> list[Line]:
    """What a person decided of a call, if one did."""
    payload, approval = wait.payload, wait.payload.approval
    if approval is None:
        return []
    told = {"approved": approval.approved, "by": approval.by, "reason": approval.reason, "decided_ms": approval.at_ms}
    args = bounded("proposed", approval.proposed, max_bytes) | bounded("args", payload.args, max_bytes)
    return [("tool_approval", {"tool": payload.tool, **args, **told, "await_id": wait.id})]
