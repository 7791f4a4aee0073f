"""Read a policy and all that it names, whole and once: the bytes that are hashed are the bytes that run."""

from __future__ import annotations

import errno
import os

import msgspec
from msgspec import Raw, Struct

from cruft_sched.core.policy import MAX_POLICY_BYTES, Policy, check_policy
from cruft_sched.core.sealing import digest
from cruft_sched.errors import DataError, PolicyError, StorageError
from cruft_sched.stores import atomic
from cruft_sched.stores.audit_log import check_log

MAX_AGENT_BYTES = 8 << 20
LANGUAGES = {".js": "javascript", ".mjs": "javascript", ".py": "python"}
"""An agent's language, by the ending of its file's name."""


class Source(Struct, frozen=True, kw_only=True):
    """A file's absolute path, its bytes, and their hash."""

    path: str
    data: bytes
    hash: str


class Project(Struct, frozen=True, kw_only=True):
    """A policy that was checked, and the agent it names."""

    policy: Policy
    policy_source: Source
    agent_source: Source
    audit_path: str


def read_project(policy_path: str, store_root: str | None = None) -> Project:
    """Read and check the policy at `policy_path` and its agent; `store_root` is where the audit log may not lie.

    Raises PolicyError with every fault, DataError where the policy itself cannot be read.
    """
    policy_source = read_source(policy_path, "policy", MAX_POLICY_BYTES)
    policy, faults = check_policy(policy_source.data)
    if policy is None:
        raise PolicyError(policy_source.path, faults)
    agent_source: Source | None = None
    try:
        agent_source = read_agent(policy, policy_source.path)
    except DataError as error:
        faults.append(f"$.agent: {error.what}")
    audit_path = beside(policy_source.path, policy.audit_log)
    try:
        sources = [policy_source.path, beside(policy_source.path, policy.agent)]
        check_log(audit_path, sources if store_root is None else [*sources, os.path.abspath(store_root)])
    except DataError as error:
        faults.append(f"$.audit_log: {error.what}")
    if faults or agent_source is None:
        raise PolicyError(policy_source.path, faults)
    return Project(policy=policy, policy_source=policy_source, agent_source=agent_source, audit_path=audit_path)


def read_agent(policy: Policy, policy_path: str) -> Source:
    """The agent that a policy names. Raises DataError."""
    path = beside(policy_path, policy.agent)
    if language_of(path) is None:
        raise DataError(f"agent {path} is in no language known here", f"its name must end in {' or '.join(LANGUAGES)}")
    source = read_source(path, "agent", MAX_AGENT_BYTES)
    check_agent(source)
    return source


def language_of(agent_path: str) -> str | None:
    """`javascript`, `python`, or None, by the ending of the name."""
    return LANGUAGES.get(os.path.splitext(agent_path)[1])


def check_agent(source: Source) -> None:
    """Raise DataError where the agent is not text that an interpreter reads to its end."""
    try:
        text = source.data.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"agent {source.path} is not UTF-8 (byte {error.start})", "save it as UTF-8") from None
    if "\0" in text:
        raise DataError(f"agent {source.path} holds a NUL character", "remove it")


def read_source(path: str, what: str, max_bytes: int) -> Source:
    """A file with its hash. Raises DataError where it cannot be read, StorageError where the disk fails."""
    path = os.path.abspath(path)
    try:
        path.encode()
        data = atomic.read_file(os.path.realpath(path), max_bytes)
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{what} {path} does not exist", "check the path") from None
    except PermissionError:
        raise DataError(f"{what} {path} cannot be read", "check its permissions") from None
    except UnicodeEncodeError:
        raise DataError(f"{what} {path!a} has a name that is not UTF-8", "rename it") from None
    except ValueError as error:
        raise DataError(f"{what} {error}", "check the path") from None
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            raise DataError(f"{what} {path} is no path ({error.strerror})", "check the path") from None
        raise StorageError(f"cannot read {what} {path}: {error.strerror or error}", "mend the disk") from error
    return Source(path=path, data=data, hash=digest(data))


def beside(policy_path: str, path: str) -> str:
    """A path of the policy, made absolute: it starts at the policy's folder."""
    return os.path.abspath(os.path.join(os.path.dirname(policy_path), path))


def compact(values: dict[str, Raw]) -> dict[str, Raw]:
    """The same JSON values, each on one line."""
    return {key: Raw(msgspec.json.format(bytes(value), indent=-1)) for key, value in values.items()}
