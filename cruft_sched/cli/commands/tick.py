"""`cruft agent schedule tick`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cruft_sched.cli import human, options
from cruft_sched.cli.app import Command, complain
from cruft_sched.cli.output import output_option, show

if TYPE_CHECKING:
    from cruft_sched.ops.tick import NotReady, Ticked

EXIT_TURN_FAILED = 70
WAIT_S = 86_400.0


@click.command("tick", cls=Command)
@options.job_id
@options.store
@click.option("--wait", is_flag=True, help="Wait for another tick of the same job to end.")
@output_option
@click.pass_context
def command(ctx: click.Context, job_id: str, store: str, wait: bool, output: str) -> None:
    """Advance a job by one turn. A job whose timer has not come is left alone."""
    from cruft_sched.clock import SystemClock
    from cruft_sched.ops.tick import Ticked, tick

    report = tick(options.open_store(store), job_id, SystemClock(), WAIT_S if wait else 0.0)
    show(output, report, lambda: _human(report))
    if isinstance(report, Ticked) and report.error is not None:
        what = f"job {job_id} failed in {report.turn_id}: {report.error}"
        complain(ctx.command_path, f"{what}; the turn's lines in the audit log say more")
        ctx.exit(EXIT_TURN_FAILED)


def _human(report: NotReady | Ticked) -> str:
    from cruft_sched.ops.tick import NotReady

    if isinstance(report, NotReady):
        left = human.duration(report.deadline_ms - report.now_ms)
        return f"job {report.job_id} sleeps until {human.instant(report.deadline_ms)}, {left} from now"
    until = f" until {human.instant(report.deadline_ms)}" if report.deadline_ms is not None else ""
    return f"job {report.job_id} is {human.status(report.status)}{until} (turn {report.turn_cursor})"
