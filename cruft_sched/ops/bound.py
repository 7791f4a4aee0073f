"""The sources a job is bound to, as bytes that have the hashes in its manifest, or a refusal."""

from __future__ import annotations

import os

from msgspec import Struct

from cruft_sched.core.manifest import Manifest
from cruft_sched.core.policy import MAX_POLICY_BYTES, Policy, decode_policy
from cruft_sched.errors import ChangedError, DataError
from cruft_sched.ops.policy_paths import check_executables
from cruft_sched.ops.project import MAX_AGENT_BYTES, Admitted, admit, admitted_files, beside, read_source
from cruft_sched.stores.file import FileStore


class Bound(Struct, frozen=True, kw_only=True):
    """What a turn runs on. Nothing of it is read a second time."""

    policy: Policy
    agent: bytes
    admitted: Admitted
    audit_path: str


def read_bound(store: FileStore, manifest: Manifest) -> Bound:
    """The sources of a job, from the store if it is pinned, else from where they lie.

    Raises ChangedError naming the file that is not what it was at the start.
    """
    policy = _read(store, manifest, "policy", manifest.policy_path, manifest.policy_hash, MAX_POLICY_BYTES)
    agent = _read(store, manifest, "agent", manifest.agent_path, manifest.agent_hash, MAX_AGENT_BYTES)
    decoded = decode_policy(policy)
    check_executables(decoded, os.path.dirname(manifest.policy_path), manifest.bound, _remedy(manifest))
    files = {file.path: file.what for file in admitted_files(decoded, manifest.policy_path)}
    data = {
        path: _read(store, manifest, what, path, manifest.bound.get(path, ""), MAX_AGENT_BYTES)
        for path, what in files.items()
    }
    return Bound(
        policy=decoded,
        agent=agent,
        admitted=admit(decoded, manifest.policy_path, data),
        audit_path=beside(manifest.policy_path, decoded.audit_log),
    )


def _read(store: FileStore, manifest: Manifest, what: str, path: str, expected: str, max_bytes: int) -> bytes:
    if manifest.pinned:
        return store.get_object(expected)
    try:
        source = read_source(path, what, max_bytes)
    except DataError as error:
        raise ChangedError(error.what, _remedy(manifest)) from None
    if source.hash != expected:
        raise ChangedError(f"{what} changed since start: {path}", _remedy(manifest))
    return source.data


def _remedy(manifest: Manifest) -> str:
    return (
        f"job {manifest.job_id} was not changed: restore the file, or start a new job "
        "(with --pin, a job keeps the bytes of its start)"
    )
