"""`cruft agent schedule tick --due`: the lines of a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cruft_sched.cli import human, reports
from cruft_sched.cli.app import complain
from cruft_sched.cli.output import show
from cruft_sched.clock import SystemClock
from cruft_sched.errors import CruftError, InternalError
from cruft_sched.ops.sweep import Sweep, SweepOptions

if TYPE_CHECKING:
    import click

    from cruft_sched.ops.reports import Report
    from cruft_sched.stores.file import FileStore


def run_sweep(
    ctx: click.Context,
    store: FileStore,
    output: str,
    *,
    drain: bool,
    for_ms: int | None,
    max_jobs: int | None,
    workers: int,
) -> None:
    """Sweep, and print a line for each job that moved and one in the end. A job's failure is that job's: exit 0."""

    def on_report(report: Report) -> None:
        show(output, report, lambda: reports.sentence(report))
        reports.warn(ctx.command_path, report)
        fault = reports.fault(report)
        if fault is not None:
            complain(ctx.command_path, fault)

    def on_fault(job_id: str, fault: CruftError) -> None:
        said = str(fault)
        if isinstance(fault, InternalError) and isinstance(fault.__cause__, Exception):
            from cruft_sched.cli.bug import report

            said = report(fault.__cause__)
        complain(ctx.command_path, said if job_id in said else f"job {job_id}: {said}")

    options = SweepOptions(workers=workers, max_jobs=max_jobs, drain=drain, for_ms=for_ms)
    answer = Sweep(store, SystemClock(), options, on_report, on_fault).run()
    said = f"{answer.moved} moved, {answer.failed} failed, {answer.blocked} blocked, {answer.busy} busy"
    show(output, answer, lambda: human.sentence(f"{said}, in {human.duration(answer.duration_ms)}"))
