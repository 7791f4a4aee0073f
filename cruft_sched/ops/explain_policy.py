"""Say what a policy allows, once it was checked."""

from __future__ import annotations

import os

from msgspec import Struct

from cruft_sched.core.explain import Explanation, explain
from cruft_sched.core.policy import Policy
from cruft_sched.ops.policy_paths import executables
from cruft_sched.ops.project import read_project


class Explained(Struct, frozen=True, kw_only=True):
    """What `cruft agent policy explain` prints. `bound` are the files by whose hashes a job holds on to all this."""

    type: str = "agent_policy_explain"
    schema_version: int = 1
    policy: str
    policy_hash: str
    agent: str
    explanation: Explanation
    bound: list[str]


def explain_policy(path: str) -> Explained:
    """What the policy at `path` allows. Raises PolicyError, DataError, StorageError."""
    project = read_project(path)
    folder = os.path.dirname(project.policy_source.path)
    return Explained(
        policy=project.policy_source.path,
        policy_hash=project.policy_source.hash,
        agent=project.agent_source.path,
        explanation=explain(project.policy, _real(project.policy, folder)),
        bound=[
            project.policy_source.path,
            project.agent_source.path,
            *project.admitted_sources,
            *executables(project.policy, folder),
        ],
    )


def _real(policy: Policy, folder: str) -> dict[str, str]:
    """Where the policy's paths lead, of those that lead elsewhere by way of links."""
    commands = [command.partition("=")[2] for command in policy.process_commands]
    others = [policy.audit_log, policy.session_file, policy.approval_log, policy.process_cwd]
    paths = [*policy.fs_read, *policy.fs_write, *commands, *(path for path in others if path is not None)]
    absolute = {path: os.path.abspath(os.path.join(folder, path)) for path in paths}
    base, real_base = os.path.abspath(folder), os.path.realpath(folder)
    found = {}
    for path, place in absolute.items():
        expected = real_base + place.removeprefix(base) if place.startswith(base) else place
        if os.path.realpath(place) != expected:
            found[path] = os.path.realpath(place)
    return found
