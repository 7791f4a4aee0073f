"""Make a job: bind it to the hashes of its policy, its agent and all that these may load, and keep their bytes."""

from __future__ import annotations

import os

from msgspec import Struct

from cruft_sched.clock import Clock
from cruft_sched.core import ids, lifecycle
from cruft_sched.core.manifest import Manifest
from cruft_sched.ops.context import parse_context
from cruft_sched.ops.policy_paths import executables, hash_executable
from cruft_sched.ops.project import Project, compact, read_project
from cruft_sched.ops.texts import checked
from cruft_sched.stores.file import FileStore


class Started(Struct, frozen=True, kw_only=True):
    """What `start` prints."""

    type: str = "agent_scheduler_start"
    schema_version: int = 1
    job_id: str
    status: str
    store: str
    manifest: str


def start(
    policy_path: str,
    clock: Clock,
    *,
    store_root: str | None = None,
    key_file: str | None = None,
    job_id: str | None = None,
    context: bytes | None = None,
    labels: dict[str, str] | None = None,
    pin: bool = False,
) -> Started:
    """Make a job of a policy. `store_root` defaults to `.cruft/agent-scheduler` beside the policy; `context` is a
    JSON object whose keys are put over the policy's; a pinned job runs on the bytes kept now.

    Raises UsageError, DataError, JobExistsError, StorageError; then there is no new job.
    """
    if job_id is not None:
        ids.check_job_id(job_id)
    for text in (labels or {}).items():
        checked("=".join(text), "a label")
    root = _beside(policy_path) if store_root is None else store_root
    project = read_project(policy_path, root)
    told = compact(project.policy.context | parse_context(context))
    store = FileStore.create(root, key_file)
    policy_hash = store.put_object(project.policy_source.data)
    agent_hash = store.put_object(project.agent_source.data)
    bound = _bind(store, project)
    job_id = job_id or ids.new_job_id(policy_hash, agent_hash, os.urandom(16))
    now = clock.now_ms()
    manifest = Manifest(
        job_id=job_id,
        uid=os.urandom(16).hex(),
        status="created",
        revision=1,
        created_ms=now,
        updated_ms=now,
        policy_path=project.policy_source.path,
        policy_hash=policy_hash,
        agent_path=project.agent_source.path,
        agent_hash=agent_hash,
        bound=bound,
        pinned=pin,
        labels=labels or {},
        redact_fields=tuple(project.policy.redact_fields),
        context=told,
        state=compact(project.policy.state),
    )
    store.create_job(lifecycle.created(manifest))
    return Started(job_id=job_id, status="created", store=store.root, manifest=store.manifest_path(job_id))


def _beside(policy_path: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(policy_path)), ".cruft", "agent-scheduler")


def _bind(store: FileStore, project: Project) -> dict[str, str]:
    """Keep what the policy admits beside the agent, and return the hash of each file by its path. Programs are hashed
    where they lie."""
    folder = os.path.dirname(project.policy_source.path)
    kept = {path: store.put_object(source.data) for path, source in project.admitted_sources.items()}
    return kept | {path: hash_executable(path) for path in executables(project.policy, folder)}
