"""What a job's move looks like to people, and the exit code it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cruft_sched.cli import human
from cruft_sched.cli.app import complain
from cruft_sched.ops.reports import Moved, NotReady, OverBudget, Report

if TYPE_CHECKING:
    from rich.text import Text

EXIT_TURN_FAILED = 70


def sentence(report: Report) -> Text:
    """One line for people."""
    match report:
        case NotReady():
            left = human.duration(report.deadline_ms - report.now_ms)
            return human.sentence(
                f"job {report.job_id} sleeps until {human.instant(report.deadline_ms)}, {left} from now"
            )
        case OverBudget():
            return human.sentence(f"job {report.job_id} is ", human.status(report.status), f": {fault(report)}")
        case Moved():
            until = f" until {human.instant(report.deadline_ms)}" if report.deadline_ms is not None else ""
            turn = f" (turn {report.turn_cursor})" if report.turn_id is not None else ""
            token = f", token {report.token}" if report.token is not None else ""
            return human.sentence(f"job {report.job_id} is ", human.status(report.status), f"{until}{turn}{token}")


def warn(path: str, report: Report) -> None:
    """Say on standard error, of the command at `path`, what a person should know of how the turn ran."""
    if isinstance(report, Moved) and report.warning is not None:
        complain(path, f"warning: job {report.job_id}: {report.warning}")


def fault(report: Report) -> str | None:
    """What went wrong, for standard error; None where nothing did, and the exit code is 0."""
    match report:
        case OverBudget():
            what = f"{report.budget} is {report.limit}, and turn {report.attempted_turn} would exceed it"
            return f"job {report.job_id} is expired: {what}; start a new job"
        case Moved(status="cancelled", turn_id=str()):
            return f"job {report.job_id} was cancelled, and {report.turn_id} was killed; nothing of it is kept"
        case Moved(error=error) if error is not None:
            where = f" in {report.turn_id}" if report.turn_id is not None else ""
            more = "the audit log says more" if report.turn_id is not None else "start a new job"
            return f"job {report.job_id} failed{where}: {error}; {more}"
    return None
