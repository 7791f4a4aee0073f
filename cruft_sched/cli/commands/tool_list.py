"""`cruft agent tool list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cruft_sched.cli.app import Command
from cruft_sched.cli.output import output_option, show

if TYPE_CHECKING:
    from rich.table import Table

    from cruft_sched.ops.tools import Catalogue


@click.command("list", cls=Command)
@click.option("--checkable", is_flag=True, help="Only tools whose result a check can compare.")
@output_option
def command(checkable: bool, output: str) -> None:
    """List the tools that an agent can call, where its policy grants them."""
    from cruft_sched.ops.tools import list_tools

    catalogue = list_tools(checkable=checkable)
    show(output, catalogue, lambda: _table(catalogue))


def _table(catalogue: Catalogue) -> Table:
    from rich.table import Table

    table = Table("tool", "effect", "does", "needs", box=None, pad_edge=False)
    for tool in catalogue.tools:
        table.add_row(tool.name, tool.effect, tool.about, ", ".join(tool.needs))
    return table
