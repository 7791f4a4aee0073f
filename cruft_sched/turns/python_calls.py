"""`call_tool` of a Python agent: a tool that is called while the turn waits for it."""

from __future__ import annotations

from cruft_sched.turns.python_values import parse
from cruft_sched.turns.python_waits import bounded, name_of, options_of, timeout_of

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cruft_sched.turns.host import Host


class ToolError(Exception):
    """A tool that went wrong. `disposition` is "error", "timeout" or "denied"; what is not known is None."""

    disposition: str | None = None
    tool: str | None = None
    timeout_ms: int | None = None
    duration_ms: int | None = None


ToolError.__module__ = "__main__"  # where the agent finds it, and so what its tracebacks call it


def tool_caller(host: Host) -> Callable[..., Any]:
    """The function that the agent gets."""

    def call_tool(name: str, args: object = None, options: object = None, **keywords: object) -> Any:
        """What a tool returns; else ToolError, or TypeError for arguments that it does not take.

        An option, in a dict or as a keyword: timeout_ms.
        """
        given = options_of("call_tool", options, keywords, ("timeout_ms",))
        tool = name_of("call_tool", name, "the tool")
        timeout_ms = timeout_of("call_tool", given).get("timeout_ms", "null")
        answer = parse(host.call_tool(tool, bounded(host, args, "call_tool: args"), timeout_ms))
        if "error" in answer:
            raise _error(answer["error"])
        return answer["result"]

    return call_tool


def _error(told: dict[str, Any]) -> Exception:
    if told.get("invalid_args"):
        return TypeError(told["message"])
    error = ToolError(told["message"])
    for name in ("disposition", "tool", "timeout_ms", "duration_ms"):
        setattr(error, name, told.get(name))
    return error
