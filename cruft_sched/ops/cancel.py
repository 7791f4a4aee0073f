"""Cancel a job, in whatever status it is."""

from __future__ import annotations

from msgspec import Struct

from cruft_sched.clock import Clock
from cruft_sched.core.manifest import Manifest, Status
from cruft_sched.errors import WrongStatusError
from cruft_sched.ops.advance import apply_cancel
from cruft_sched.ops.texts import checked
from cruft_sched.stores.file import CancelRequest, FileStore

WAIT_S = 60.0
"""How long to wait for the holder of the job, which kills its turn within a second."""


class CancelReport(Struct, frozen=True, kw_only=True):
    """What `cancel` prints."""

    type: str = "agent_scheduler_cancel"
    schema_version: int = 1
    job_id: str
    status: Status
    already_cancelled: bool
    previous_status: Status


def cancel(store: FileStore, job_id: str, clock: Clock, reason: str | None = None) -> CancelReport:
    """Cancel `job_id`. The request is written first and applied under the lock, by this process or by the one that
    holds the job, so it is never lost. A job that is cancelled already stays so.

    Raises WrongStatusError where the job has come to another end.
    """
    if reason is not None:
        checked(reason, "the reason")
    before = store.load(job_id)
    if not before.terminal:
        store.request_cancel(job_id, CancelRequest(uid=before.uid, reason=reason))
    if not before.terminal or store.cancel_request(job_id) is not None:  # the latter: its process died just after it
        with store.hold(job_id, WAIT_S) as held:
            manifest = held.load()
            if not manifest.terminal:
                apply_cancel(held, manifest, clock.now_ms())
                return _report(manifest, already=False)
            held.drop_cancel_request()
            if manifest.status == "cancelled":  # by the holder, for this request or another one
                return _report(before, already=before.terminal)
            before = manifest
    if before.status != "cancelled":
        raise WrongStatusError(
            f"job {job_id} is {before.status}, and cannot be cancelled any more", "nothing is left to do"
        )
    return _report(before, already=True)


def _report(before: Manifest, *, already: bool) -> CancelReport:
    return CancelReport(
        job_id=before.job_id, status="cancelled", already_cancelled=already, previous_status=before.status
    )
