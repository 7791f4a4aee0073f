"""What a policy opens to tools, and what it opens to none: the store, the policy, what a job is bound to, the logs."""

from __future__ import annotations

import os
from collections.abc import Iterable

from cruft_sched.core.manifest import Manifest
from cruft_sched.core.policy import Policy
from cruft_sched.ops.policy_paths import executables
from cruft_sched.ops.project import admitted_files, beside
from cruft_sched.stores.audit_log import rotated
from cruft_sched.stores.file import FileStore
from cruft_sched.tools.authority import Authority


def authority_of(policy: Policy, policy_path: str, audit_path: str, others: Iterable[str] = ()) -> Authority:
    """What tools may touch. `others` are out of reach, too: a store, its key, a session."""
    closed = [policy_path, beside(policy_path, policy.agent), audit_path, *rotated(audit_path)]
    closed += [file.path for file in admitted_files(policy, policy_path)]
    closed += executables(policy, os.path.dirname(policy_path))
    closed += [beside(policy_path, path) for path in (policy.approval_log, policy.session_file) if path is not None]
    return Authority(
        read=tuple(beside(policy_path, root) for root in policy.fs_read),
        include=tuple(policy.fs_read_include),
        exclude=tuple(policy.fs_read_exclude),
        write=tuple(beside(policy_path, root) for root in policy.fs_write),
        closed=(*closed, *others),
    )


def of_job(store: FileStore, manifest: Manifest, policy: Policy) -> Authority:
    """What the tools of a job may touch: nothing of its store."""
    audit_path = beside(manifest.policy_path, policy.audit_log)
    return authority_of(policy, manifest.policy_path, audit_path, [store.root, store.key_path])
