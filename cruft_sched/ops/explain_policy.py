"""Say what a policy allows, once it was checked."""

from __future__ import annotations

import os

from msgspec import Struct

from cruft_sched.core.explain import Explanation, explain
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
    return Explained(
        policy=project.policy_source.path,
        policy_hash=project.policy_source.hash,
        agent=project.agent_source.path,
        explanation=explain(project.policy),
        bound=[
            project.policy_source.path,
            project.agent_source.path,
            *project.admitted_sources,
            *executables(project.policy, os.path.dirname(project.policy_source.path)),
        ],
    )
