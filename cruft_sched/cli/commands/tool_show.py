"""`cruft agent tool show`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cruft_sched.cli import human
from cruft_sched.cli.app import Command
from cruft_sched.cli.output import output_option, show

if TYPE_CHECKING:
    from rich.text import Text

    from cruft_sched.ops.tools import ToolReport


@click.command("show", cls=Command)
@click.argument("name")
@output_option
def command(name: str, output: str) -> None:
    """Show what a tool takes, what it does, and what it needs of a policy."""
    from cruft_sched.ops.tools import show_tool

    tool = show_tool(name)
    show(output, tool, lambda: _lines(tool))


def _lines(tool: ToolReport) -> Text:
    import json

    from rich.text import Text

    again = "may be called again" if tool.repeatable else "is never blindly called again"
    lines = [
        f"{tool.name}: {tool.about}",
        f"effect: {tool.effect}; after a crash it {again}",
        f"needs of the policy: {', '.join(tool.needs)}",
        f"a check can compare: {', '.join(tool.checkable) or 'nothing'}",
        f"arguments: {json.dumps(tool.args) if tool.args else 'any JSON'}",
    ]
    return Text("\n").join(map(human.sentence, lines))
