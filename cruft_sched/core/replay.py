"""A job's life, from its manifest alone. Nothing is executed again."""

from __future__ import annotations

from msgspec import Struct

from cruft_sched.core.awaits import Await
from cruft_sched.core.manifest import BudgetLedger, Manifest, Status, TimelineEntry


class ClaimBoundary(Struct, frozen=True):
    """What a replay claims, and what it does not."""

    source: str = "scheduler_manifest"
    per_turn_audit: str = "not_reconstructed_by_this_replay_slice"
    raw_js_continuation: str = "not_claimed"


class Replay(Struct, frozen=True, kw_only=True):
    """The timeline, newest 256 entries, and where the job stands."""

    type: str = "agent_scheduler_replay"
    schema_version: int = 1
    job_id: str
    status: Status
    terminal: bool
    timeline: tuple[TimelineEntry, ...]
    timeline_dropped: int
    awaits: tuple[Await, ...]
    budget_ledger: BudgetLedger
    claim_boundary: ClaimBoundary = ClaimBoundary()


def replay(manifest: Manifest) -> Replay:
    """What `cruft agent schedule replay` prints."""
    return Replay(
        job_id=manifest.job_id,
        status=manifest.status,
        terminal=manifest.terminal,
        timeline=manifest.timeline,
        timeline_dropped=manifest.timeline_dropped,
        awaits=manifest.awaits,
        budget_ledger=manifest.budget_ledger,
    )
