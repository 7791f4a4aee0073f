"""`cruft agent schedule replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cruft_sched.cli import human, options
from cruft_sched.cli.app import Command
from cruft_sched.cli.output import output_option, plain, show

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cruft_sched.core.manifest import TimelineEntry
    from cruft_sched.core.replay import Replay


@click.command("replay", cls=Command)
@options.job_id
@options.store
@output_option
def command(job_id: str, store: str, output: str) -> None:
    """Print a job's timeline from its manifest. Nothing is executed again."""
    from cruft_sched.core.replay import replay

    answer = replay(options.open_store(store).load(job_id))
    show(output, answer, lambda: timeline(answer))


def timeline(answer: Replay) -> RenderableType:
    """A job's life as a table, oldest first: when it began, and how long after that the rest was."""
    from rich.table import Column, Table
    from rich.text import Text

    columns = [Column(name, no_wrap=True) for name in ("after", "event", "status", "turn")]
    columns.append(Column("more", overflow="fold"))
    began = answer.timeline[0].at_ms if answer.timeline else 0
    title = f"job {answer.job_id}: {answer.status}, {answer.budget_ledger.turns} turn(s), since {human.instant(began)}"
    table = Table(*columns, box=None, pad_edge=False, title=Text(title), title_justify="left")
    if answer.timeline_dropped:
        table.add_row("…", Text(f"{answer.timeline_dropped} older entries"))
    for entry in answer.timeline:
        turn = (entry.turn_id or "").rpartition("/")[2].removeprefix("turn-")
        after = human.duration(entry.at_ms - began)
        table.add_row(after, entry.event, human.status(entry.status), turn, Text(plain(_more(entry))))
    return table


def _more(entry: TimelineEntry) -> str:
    until = f"until {human.instant(entry.deadline_ms)}" if entry.deadline_ms is not None else None
    by = f"by {entry.by}" if entry.by is not None else None
    return "; ".join(filter(None, (entry.tool, until, by, entry.error, entry.reason)))
