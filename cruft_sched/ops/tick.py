"""Advance one job by one turn. The order of the steps is the contract: see docs/concepts.md."""

from __future__ import annotations

from cruft_sched.clock import Clock
from cruft_sched.core.manifest import Manifest
from cruft_sched.core.ready import Over, Sleeping, Unanswered, readiness
from cruft_sched.errors import WrongStatusError
from cruft_sched.ops.reports import NotReady, Report
from cruft_sched.ops.stopping import Stop, never
from cruft_sched.stores.file import FileStore


def tick(store: FileStore, job_id: str, clock: Clock, wait_s: float = 0.0, stop: Stop = never) -> Report:
    """Advance `job_id` by one turn. `wait_s` is how long to wait for another tick of it to end (seconds); `stop` is
    asked a few times a second whether to give up.

    Raises UnknownJobError, DataError, RefusedError, WrongStatusError, BusyError, UnavailableError, StorageError.
    """
    # A look without the lock: a job that cannot move costs one read, and no tick in flight can be disturbed.
    if store.cancel_request(job_id) is None:
        sleeping = check_ready(store.load(job_id), clock.now_ms())
        if sleeping is not None:
            return sleeping

    from cruft_sched.ops.advance import advance_held  # here, since most of what it needs a sleeping job does not

    with store.hold(job_id, wait_s) as held:
        return advance_held(held, clock, stop)


def check_ready(manifest: Manifest, now_ms: int) -> NotReady | None:
    """None where a tick would move the job. Raises WrongStatusError where only something else can, or nothing."""
    match readiness(manifest, now_ms):
        case Sleeping(deadline_ms=deadline):
            return NotReady(job_id=manifest.job_id, status=manifest.status, deadline_ms=deadline, now_ms=now_ms)
        case Unanswered():
            raise WrongStatusError(
                f"job {manifest.job_id} is awaiting_input: a person must answer",
                f"`cruft agent schedule token {manifest.job_id}` shows what is asked, and the command that answers",
            )
        case Over():
            raise WrongStatusError(
                f"job {manifest.job_id} is {manifest.status}, and has no next turn", "start a new job"
            )
    return None
