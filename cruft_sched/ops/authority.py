"""What a policy opens to tools, and what it opens to none: the store, the policy, what a job is bound to, the logs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from cruft_sched.core.manifest import Manifest
from cruft_sched.core.policy import Policy
from cruft_sched.ops.policy_paths import commands, executables
from cruft_sched.ops.project import admitted_files, beside
from cruft_sched.stores.audit_log import rotated
from cruft_sched.stores.file import FileStore
from cruft_sched.tools.authority import Authority, Program, Programs


def authority_of(
    policy: Policy,
    policy_path: str,
    audit_path: str,
    hash_of: Callable[[str], str],
    others: Iterable[str] = (),
    store: Iterable[str] = (),
) -> Authority:
    """What tools may touch. `hash_of` gives the hash that a program must have, by its path; `others` are out of reach,
    too, and so is what belongs to a `store`, of programs as well."""
    closed = [policy_path, beside(policy_path, policy.agent), audit_path, *rotated(audit_path)]
    closed += [file.path for file in admitted_files(policy, policy_path)]
    closed += executables(policy, os.path.dirname(policy_path))
    closed += [beside(policy_path, path) for path in (policy.approval_log, policy.session_file) if path is not None]
    return Authority(
        read=tuple(beside(policy_path, root) for root in policy.fs_read),
        include=tuple(policy.fs_read_include),
        exclude=tuple(policy.fs_read_exclude),
        write=tuple(beside(policy_path, root) for root in policy.fs_write),
        closed=(*closed, *others, *store),
        programs=_programs(policy, policy_path, hash_of, tuple(store)),
    )


def of_job(store: FileStore, manifest: Manifest, policy: Policy) -> Authority:
    """What the tools of a job may touch: nothing of its store."""
    audit_path = beside(manifest.policy_path, policy.audit_log)
    opened = authority_of(
        policy,
        manifest.policy_path,
        audit_path,
        lambda path: manifest.bound[path],
        store=[store.root, store.key_path],
    )
    return replace(opened, result=lambda name: store.get_object(name) if name in manifest.kept_results else None)


def secret_names(policy: Policy, tool: str) -> tuple[str, ...]:
    """The environment variables that the policy gives to a tool."""
    return tuple(name for owner, _, name in (secret.partition(":") for secret in policy.secrets) if owner == tool)


def _programs(policy: Policy, policy_path: str, hash_of: Callable[[str], str], shut: tuple[str, ...]) -> Programs:
    patterns = policy.process_args
    return Programs(
        by_name={
            name: Program(path=path, hash=hash_of(path), args=tuple(patterns[name]) if name in patterns else None)
            for name, path in commands(policy, os.path.dirname(policy_path)).items()
        },
        folder=beside(policy_path, policy.process_cwd or "."),
        environment=dict(_pair(assignment) for assignment in policy.process_env),
        max_output_bytes=policy.budgets.process_output_stream_chunk_bytes,
        isolation=policy.isolation,
        shut=shut,
    )


def _pair(assignment: str) -> tuple[str, str]:
    name, _, value = assignment.partition("=")
    return name, value
