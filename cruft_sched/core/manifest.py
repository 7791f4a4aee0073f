"""The job record. Its file, `manifest.json`, is the only thing that decides anything."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec
from msgspec import Raw, Struct

from cruft_sched.core.awaits import Await, InputAwait
from cruft_sched.core.outcomes import NULL, TurnError
from cruft_sched.errors import DataError

MANIFEST_TYPE = "cruft_agent_scheduler_job_manifest"
SCHEMA_VERSION = 1
TIMELINE_LIMIT = 256

Status = Literal[
    "created",
    "running",
    "awaiting_timer",
    "awaiting_tool",
    "awaiting_input",
    "completed",
    "failed",
    "cancelled",
    "expired",
]
STATUSES: tuple[Status, ...] = get_args(Status)
TERMINAL: frozenset[Status] = frozenset(("completed", "failed", "cancelled", "expired"))


class TimelineEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing that happened to the job. `status` is the job's, after it."""

    event: str
    at_ms: int
    status: Status
    turn_id: str | None = None
    deadline_ms: int | None = None
    tool: str | None = None
    by: str | None = None
    error: str | None = None
    reason: str | None = None
    clock_ms: int | None = None
    """What the clock said, where it had gone back behind the entry before."""


class BudgetLedger(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the job has used, over all its committed turns."""

    turns: int = 0
    events: int = 0
    tools: int = 0
    failures: int = 0
    outstanding_awaits: int = 0


class AuditHead(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last committed run in the audit log: how many lines it has, and the hash of its last one."""

    run_id: str
    lines: int
    head: str


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job. Times are UTC epoch milliseconds; hashes are `blake3:<64 hex>`; paths are absolute."""

    type: Literal["cruft_agent_scheduler_job_manifest"] = "cruft_agent_scheduler_job_manifest"
    schema_version: Literal[1] = 1
    job_id: str
    uid: str
    status: Status
    revision: int
    created_ms: int
    updated_ms: int
    policy_path: str
    policy_hash: str
    agent_path: str
    agent_hash: str
    bound: dict[str, str] = {}
    """The hash of each file that the policy admits beside the agent, by its path."""
    pinned: bool = False
    labels: dict[str, str] = {}
    redact_fields: tuple[str, ...] = ()
    """The policy's, so that a job can be ended without it."""
    secrets: tuple[str, ...] | None = ()
    """What was seen under these keys so far, and is masked wherever it comes up again; None: too much, so all is
    masked. Emptied when the job is over."""
    kept_results: dict[str, int] = {}
    """Results that were too large for this record: the size (bytes) of each object, by its hash; the newest ones."""
    context: dict[str, Raw]
    state: dict[str, Raw]
    active_turn_id: str | None = None
    turn_cursor: int = 0
    interruptions: int = 0
    """Turns interrupted in a row."""
    last_turn_status: Literal["suspended", "completed", "failed", "interrupted"] | None = None
    result: Raw = NULL
    error: TurnError | None = None
    awaits: tuple[Await, ...] = ()
    budget_ledger: BudgetLedger = BudgetLedger()
    timeline: tuple[TimelineEntry, ...] = ()
    timeline_dropped: int = 0
    audit: AuditHead | None = None

    @property
    def wait(self) -> Await | None:
        """What the job waits for, settled or not."""
        return self.awaits[0] if self.awaits else None

    @property
    def question(self) -> InputAwait | None:
        """The input that waits for an answer, and has no other outcome either."""
        return self.wait if isinstance(self.wait, InputAwait) and self.wait.done is None else None

    @property
    def terminal(self) -> bool:
        """Nothing leaves this status."""
        return self.status in TERMINAL


class _Envelope(Struct):
    """The part that every version of every record has."""

    type: Any = None
    schema_version: Any = None
    job_id: Any = None


def encode(manifest: Manifest) -> bytes:
    """The manifest as one JSON object, without its seal."""
    return msgspec.json.encode(manifest)


def decode(record: bytes, job_id: str) -> Manifest:
    """The manifest of `job_id` in a record whose seal holds. Raises DataError."""
    try:
        manifest = msgspec.json.decode(record, type=Manifest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _refusal(record, job_id, error) from None
    if not _consistent(manifest):
        raise DataError(
            f"the manifest of job {job_id} contradicts itself: {manifest.status} without what that takes",
            "restore it from a backup",
        )
    if manifest.job_id != job_id:
        raise DataError(
            f"the manifest of job {job_id} is that of job {manifest.job_id!a}",
            "move it back to where it was",
        )
    return manifest


def _consistent(manifest: Manifest) -> bool:
    """Whether a status stands beside the await and the turn that it implies."""
    kinds = [wait.kind for wait in manifest.awaits]
    awaiting = manifest.status.removeprefix("awaiting_")
    return (
        (manifest.active_turn_id is not None) == (manifest.status == "running")
        and (kinds == [awaiting]) == (manifest.status != awaiting)
        and len(kinds) <= (not manifest.terminal and manifest.status != "created")
    )


def _refusal(record: bytes, job_id: str, error: Exception) -> DataError:
    """Why a sealed record is not read: too new, of another kind, or not well-formed."""
    try:
        envelope = msgspec.json.decode(record, type=_Envelope)
    except (msgspec.DecodeError, RecursionError):
        return DataError(f"the manifest of job {job_id} is not JSON ({error})", "restore it from a backup")
    if envelope.type == MANIFEST_TYPE and envelope.schema_version != SCHEMA_VERSION:
        version = envelope.schema_version
        return DataError(
            f"the manifest of job {job_id} has schema_version {version!a}, and this cruft reads {SCHEMA_VERSION}",
            "use the version of cruft that wrote it",
        )
    return DataError(f"the manifest of job {job_id} is not well-formed ({error})", "restore it from a backup")
