"""Check a policy and all that it names, without starting anything."""

from __future__ import annotations

from msgspec import Struct

from cruft_sched.errors import PolicyError
from cruft_sched.ops.project import read_project


class PolicyFault(Struct, frozen=True, kw_only=True):
    """One thing that is wrong, and where, as a JSON path."""

    path: str
    message: str


class Validated(Struct, frozen=True, kw_only=True):
    """What `cruft agent policy validate` prints."""

    type: str = "agent_policy_validate"
    schema_version: int = 1
    policy: str
    valid: bool
    faults: list[PolicyFault]


def validate_policy(path: str) -> Validated:
    """Every fault of the policy at `path`. Raises DataError where there is no such file, StorageError."""
    try:
        project = read_project(path)
    except PolicyError as error:
        faults = [PolicyFault(path=where, message=what) for where, _, what in map(_parted, error.faults)]
        return Validated(policy=error.path, valid=False, faults=faults)
    return Validated(policy=project.policy_source.path, valid=True, faults=[])


def _parted(fault: str) -> tuple[str, str, str]:
    return fault.partition(": ")
