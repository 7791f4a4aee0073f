"""`cruft agent schedule cancel`."""

from __future__ import annotations

import click

from cruft_sched.cli import human, options
from cruft_sched.cli.app import Command
from cruft_sched.cli.output import output_option, show


@click.command("cancel", cls=Command)
@options.job_id
@options.store
@click.option("--reason", metavar="TEXT", help="Why; it stands in the timeline.")
@output_option
def command(job_id: str, store: str, reason: str | None, output: str) -> None:
    """Cancel a job. What it waits for is dropped; a turn that runs is killed. A cancelled job stays so."""
    from cruft_sched.clock import SystemClock
    from cruft_sched.ops.cancel import cancel

    answer = cancel(options.open_store(store), job_id, SystemClock(), reason)
    already = " already" if answer.already_cancelled else f" (it was {answer.previous_status})"
    show(output, answer, lambda: human.sentence(f"job {job_id} is ", human.status(answer.status), already))
