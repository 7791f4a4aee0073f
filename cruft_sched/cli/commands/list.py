"""`cruft agent schedule list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cruft_sched.cli import human, options
from cruft_sched.cli.app import Command, complain
from cruft_sched.cli.output import output_option, plain, show
from cruft_sched.core.manifest import STATUSES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cruft_sched.ops.list_jobs import Listing


@click.command("list", cls=Command)
@options.store
@click.option("--status", type=click.Choice(STATUSES), help="Only jobs of this status.")
@options.labels
@output_option
@click.pass_context
def command(ctx: click.Context, store: str, status: str | None, labels: dict[str, str], output: str) -> None:
    """List the jobs of a store, sorted by id. A job that cannot be read is named on standard error."""
    from cruft_sched.ops.list_jobs import list_jobs

    listing, faults = list_jobs(options.open_store(store), status, labels)
    show(output, listing, lambda: _table(listing))
    if faults:
        complain(ctx.command_path, f"{len(faults)} left out: {'; '.join(faults)}")


def _table(listing: Listing) -> RenderableType:
    from msgspec import UNSET
    from rich.table import Table
    from rich.text import Text

    if not listing.jobs:
        return human.sentence(f"no jobs in {listing.store}")
    table = Table("job", "status", "turns", "due", "labels", box=None, pad_edge=False)
    for job in listing.jobs:
        due = "" if job.deadline_ms is UNSET else human.instant(job.deadline_ms)
        pairs = {} if job.labels is UNSET else job.labels
        labels = Text(plain(" ".join(f"{key}={value}" for key, value in pairs.items())))
        table.add_row(Text(job.job_id), human.status(job.status), str(job.turn_cursor), due, labels)
    return table
