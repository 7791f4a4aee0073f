"""What the tools are, for people and for programs."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from cruft_sched.errors import DataError
from cruft_sched.tools.registry import TOOLS
from cruft_sched.tools.tool import Effect, Tool


class ToolReport(Struct, frozen=True, kw_only=True):
    """One tool. `args` is the JSON Schema of its arguments; `repeatable`: a call that may have run can be made again;
    `needs` are the policy's fields that give it authority; `checkable`, the fields of its result that a check can
    compare."""

    type: str = "agent_tool"
    schema_version: int = 1
    name: str
    about: str
    effect: Effect
    repeatable: bool
    needs: list[str]
    checkable: list[str]
    args: dict[str, Any]


class Catalogue(Struct, frozen=True, kw_only=True):
    """What `cruft agent tool list` prints."""

    type: str = "agent_tool_list"
    schema_version: int = 1
    tools: list[ToolReport]


def list_tools(*, checkable: bool = False) -> Catalogue:
    """Every tool, by name; `checkable`: those whose result a check can compare."""
    tools = [_report(name, tool) for name, tool in sorted(TOOLS.items())]
    return Catalogue(tools=[tool for tool in tools if tool.checkable or not checkable])


def show_tool(name: str) -> ToolReport:
    """One tool. Raises DataError where there is none of that name."""
    tool = TOOLS.get(name)
    if tool is None:
        raise DataError(f"there is no tool {name!a}", "see `cruft agent tool list`")
    return _report(name, tool)


def _report(name: str, tool: Tool) -> ToolReport:
    return ToolReport(
        name=name,
        about=tool.about,
        effect=tool.effect,
        repeatable=tool.repeatable,
        needs=["tools", *tool.needs],
        checkable=list(tool.checkable),
        args=tool.args,
    )
