"""List the jobs of a store."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from cruft_sched.core.awaits import deadline_ms
from cruft_sched.core.manifest import Manifest, Status
from cruft_sched.errors import DataError, StorageError, UnknownJobError, UsageError
from cruft_sched.stores.file import FileStore


class ListedJob(Struct, frozen=True, kw_only=True):
    """One line of the list."""

    job_id: str
    status: Status
    turn_cursor: int
    updated_ms: int
    deadline_ms: int | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET


class Listing(Struct, frozen=True, kw_only=True):
    """What `list` prints: the jobs, sorted by id."""

    type: str = "agent_scheduler_list"
    schema_version: int = 1
    store: str
    jobs: list[ListedJob]


def list_jobs(
    store: FileStore, status: str | None = None, labels: dict[str, str] | None = None
) -> tuple[Listing, list[str]]:
    """The jobs that have `status` and all of `labels`, and a sentence for each job that cannot be read."""
    store.store_key()  # a lost key is one fault, not one a job
    listed: list[ListedJob] = []
    faults: list[str] = []
    for job_id in store.job_ids():
        try:
            manifest = store.load(job_id)
        except UnknownJobError:
            continue  # deleted since the folder was listed
        except (DataError, StorageError, UsageError) as error:
            faults.append(error.what)
            continue
        if (status is None or manifest.status == status) and (labels or {}).items() <= manifest.labels.items():
            listed.append(_listed(manifest))
    return Listing(store=store.root, jobs=listed), faults


def _listed(manifest: Manifest) -> ListedJob:
    deadlines = [deadline_ms(wait) for wait in manifest.awaits if wait.done is None]
    deadline = deadlines[0] if deadlines else None
    return ListedJob(
        job_id=manifest.job_id,
        status=manifest.status,
        turn_cursor=manifest.turn_cursor,
        updated_ms=manifest.updated_ms,
        deadline_ms=UNSET if deadline is None else deadline,
        labels=manifest.labels or UNSET,
    )
