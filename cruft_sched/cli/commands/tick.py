"""`cruft agent schedule tick`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cruft_sched.cli import options
from cruft_sched.cli.app import Command, complain
from cruft_sched.cli.output import output_option, show

if TYPE_CHECKING:
    from cruft_sched.ops.reports import Report
    from cruft_sched.stores.file import FileStore

WAIT_S = 86_400.0


@click.command("tick", cls=Command)
@click.argument("job_id", metavar="[JOB-ID]", required=False)
@options.store
@click.option("--due", is_flag=True, help="Advance every job that can move.")
@click.option("--drain", is_flag=True, help="With --due: go on until nothing can move.")
@click.option("--for", "for_ms", type=options.DURATION, help="With --drain: at most this long (50s, 10m).")
@click.option("--max-jobs", type=click.IntRange(min=1), help="With --due: take so many turns at most.")
@click.option("--workers", type=click.IntRange(1, 64), help="With --due: so many turns at a time.")
@click.option("--wait", is_flag=True, help="Wait for another tick of the same job to end.")
@click.option("--show-token", is_flag=True, help="Show the token of an input that the turn asks for.")
@output_option
@click.pass_context
def command(
    ctx: click.Context,
    job_id: str | None,
    store: str,
    due: bool,
    drain: bool,
    for_ms: int | None,
    max_jobs: int | None,
    workers: int | None,
    wait: bool,
    show_token: bool,
    output: str,
) -> None:
    """Advance a job by one turn, or with --due every job that can move. A job whose timer has not come is left alone.

    A line for cron: * * * * * cruft agent schedule tick --due --drain --for 50s --store STORE
    """
    if (job_id is None) != due:
        raise click.UsageError("give a job id, or --due")
    if not due and (drain or max_jobs is not None or workers is not None):
        raise click.UsageError("--drain, --max-jobs and --workers go with --due")
    if due and (wait or show_token):
        raise click.UsageError("--wait and --show-token go with a job id")
    if for_ms is not None and not drain:
        raise click.UsageError("--for goes with --drain")
    opened = options.open_store(store)
    if job_id is None:
        from cruft_sched.cli.sweep import run_sweep

        run_sweep(ctx, opened, output, drain=drain, for_ms=for_ms, max_jobs=max_jobs, workers=workers or 1)
    else:
        _one(ctx, opened, job_id, wait, show_token, output)


def _one(ctx: click.Context, store: FileStore, job_id: str, wait: bool, show_token: bool, output: str) -> None:
    from cruft_sched.clock import SystemClock
    from cruft_sched.ops.tick import tick

    report = tick(store, job_id, SystemClock(), WAIT_S if wait else 0.0)
    finish(ctx, _with_token(store, report) if show_token else report, output)


def finish(ctx: click.Context, report: Report, output: str) -> None:
    """Print what became of a job, and exit with the code of that."""
    from cruft_sched.cli import reports

    show(output, report, lambda: reports.sentence(report))
    reports.warn(ctx.command_path, report)
    fault = reports.fault(report)
    if fault is not None:
        complain(ctx.command_path, fault)
        ctx.exit(reports.EXIT_TURN_FAILED)


def _with_token(store: FileStore, report: Report) -> Report:
    """The same report, with the token: the await it belongs to is committed."""
    from msgspec.structs import replace

    from cruft_sched.ops.reports import Moved
    from cruft_sched.ops.show_token import pending_token

    if not isinstance(report, Moved) or report.status != "awaiting_input":
        return report
    pending = pending_token(store, store.load(report.job_id))
    return replace(report, token=pending.token) if pending is not None else report
