"""Read a policy and all that it names, whole and once: the bytes that are hashed are the bytes that run."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from cruft_sched.core.admitted import integrity_fault
from cruft_sched.core.answers import schema_fault
from cruft_sched.core.policy import MAX_POLICY_BYTES, Policy
from cruft_sched.core.policy_faults import check_policy
from cruft_sched.core.sealing import digest
from cruft_sched.core.strict_json import duplicate_keys, parse_json
from cruft_sched.errors import DataError, PolicyError, StorageError, remedy
from cruft_sched.ops.policy_paths import executables, path_faults
from cruft_sched.stores import atomic

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
    admitted_sources: dict[str, Source]
    """The files that the policy admits beside the agent, by their paths."""
    audit_path: str
    others: list[str]
    """The paths that no audit log and no session may have."""


def read_project(policy_path: str, store_root: str | None = None, audit_log: str | None = None) -> Project:
    """Read and check the policy at `policy_path` and its agent; `store_root` is where the audit log may not lie, and
    `audit_log` stands in the place of the policy's.

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
    named = admitted_files(policy, policy_source.path)
    sources = _read_admitted(named, policy, faults)
    faults += path_faults(policy, os.path.dirname(policy_source.path))
    audit_path = beside(policy_source.path, policy.audit_log) if audit_log is None else os.path.abspath(audit_log)
    others = [policy_source.path, beside(policy_source.path, policy.agent), *(file.path for file in named)]
    others += executables(policy, os.path.dirname(policy_source.path))
    if store_root is not None:
        others.append(os.path.abspath(store_root))
    session = None if policy.session_file is None else beside(policy_source.path, policy.session_file)
    faults += _place_faults(audit_path, session, others)
    if faults or agent_source is None:
        raise PolicyError(policy_source.path, faults)
    return Project(
        policy=policy,
        policy_source=policy_source,
        agent_source=agent_source,
        admitted_sources=sources,
        audit_path=audit_path,
        others=others,
    )


def _place_faults(audit_path: str, session: str | None, others: list[str]) -> list[str]:
    from cruft_sched.ops import places  # here: a tick does not check again where things lie

    faults = []
    try:
        places.check_audit_place(audit_path, others)
    except DataError as error:
        faults.append(f"$.audit_log: {error.what}")
    try:
        if session is not None:
            places.check_session_place(session, audit_path, others)
    except DataError as error:
        faults.append(f"$.session_file: {error.what}")
    return faults


def read_agent(policy: Policy, policy_path: str) -> Source:
    """The agent that a policy names. Raises DataError."""
    path = beside(policy_path, policy.agent)
    if language_of(path) is None:
        raise DataError(f"agent {path} is in no language known here", f"its name must end in {' or '.join(LANGUAGES)}")
    source = read_source(path, "agent", MAX_AGENT_BYTES)
    if not source.data:
        raise DataError(f"agent {source.path} is empty", "restore it")
    check_text(source, "agent")
    return source


def language_of(agent_path: str) -> str | None:
    """`javascript`, `python`, or None, by the ending of the name."""
    return LANGUAGES.get(os.path.splitext(agent_path)[1])


def check_text(source: Source, what: str) -> None:
    """Raise DataError where a source is not text that an interpreter reads to its end."""
    try:
        text = source.data.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{what} {source.path} is not UTF-8 (byte {error.start})", "save it as UTF-8") from None
    if "\0" in text:
        raise DataError(f"{what} {source.path} holds a NUL character", "remove it")


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
        raise StorageError(f"cannot read {what} {path}: {error.strerror or error}", remedy(error)) from error
    return Source(path=path, data=data, hash=digest(data))


def beside(policy_path: str, path: str) -> str:
    """A path of the policy, made absolute: it starts at the policy's folder."""
    return os.path.abspath(os.path.join(os.path.dirname(policy_path), path))


AdmittedField = Literal["modules", "packages", "import_hooks", "expected_events", "osv_fixture", "model_fixture"]
_WHAT: dict[AdmittedField, str] = {
    "modules": "module",
    "packages": "package",
    "import_hooks": "import hook",
    "expected_events": "event schema",
    "osv_fixture": "fixture",
    "model_fixture": "fixture",
}
_IMPORTED = ("modules", "packages", "import_hooks")


class AdmittedFile(Struct, frozen=True, kw_only=True):
    """A file that a policy names beside the agent: where, under which name, and what it is there for."""

    field: AdmittedField
    name: str
    path: str

    @property
    def what(self) -> str:
        """What it is, for people."""
        return _WHAT[self.field]


def admitted_files(policy: Policy, policy_path: str) -> list[AdmittedFile]:
    """All of them, in the policy's order. One file may be there more than once."""
    fields: dict[AdmittedField, dict[str, str]] = {
        "modules": policy.modules,
        "packages": policy.packages,
        "import_hooks": policy.import_hooks,
        "expected_events": policy.expected_events or {},
        "osv_fixture": {} if policy.osv_fixture is None else {"": policy.osv_fixture},
        "model_fixture": {} if policy.model_fixture is None else {"": policy.model_fixture},
    }
    return [
        AdmittedFile(field=field, name=name, path=beside(policy_path, path))
        for field, files in fields.items()
        for name, path in files.items()
    ]


class Admitted(Struct, frozen=True, kw_only=True):
    """What a turn is given of the admitted files."""

    modules: dict[str, bytes]
    expected_events: dict[str, Any] | None


def admit(policy: Policy, policy_path: str, data: Mapping[str, bytes]) -> Admitted:
    """What a policy admits, from the bytes of each of the files, by path. They were checked before."""
    files = admitted_files(policy, policy_path)
    schemas = {file.name: file.path for file in files if file.field == "expected_events"}
    expected = {kind: msgspec.json.decode(data[path]) for kind, path in schemas.items()}
    return Admitted(
        modules={file.name: data[file.path] for file in files if file.field in _IMPORTED},
        expected_events=None if policy.expected_events is None else expected,
    )


def _read_admitted(files: list[AdmittedFile], policy: Policy, faults: list[str]) -> dict[str, Source]:
    """Read and check the admitted files, each once. What is wrong is added to `faults`."""
    sources: dict[str, Source] = {}
    for file in files:
        try:
            if file.path not in sources:
                sources[file.path] = read_source(file.path, file.what, MAX_AGENT_BYTES)
            _check_admitted(file, sources[file.path], policy)
        except DataError as error:
            where = f"$.{file.field}.{file.name}".rstrip(".")
            faults.append(f"{where}: {error.what}")
    return sources


def _check_admitted(file: AdmittedFile, source: Source, policy: Policy) -> None:
    if file.field == "expected_events":
        _check_schema(source)
    if file.field not in _IMPORTED:
        return
    check_text(source, file.what)
    hashes = {"packages": policy.package_integrity, "import_hooks": policy.import_hook_integrity}.get(file.field)
    fault = None if hashes is None else integrity_fault(source.data, hashes[file.name])
    if fault is not None:
        raise DataError(f"{file.what} {source.path} {fault}", "restore the file, or correct the policy")


def _check_schema(source: Source) -> None:
    """Raise DataError where a source is not a schema that an event can be checked against."""
    try:
        schema = parse_json(source.data, MAX_POLICY_BYTES)
    except DataError as error:
        raise DataError(f"event schema {source.path} is refused: {error.what}", error.todo) from None
    fault = next(iter(duplicate_keys(schema, "$")), None) or schema_fault(schema)
    if fault is not None:
        raise DataError(f"event schema {source.path} is refused: {fault}", "correct it and try again")


def compact(values: dict[str, Raw]) -> dict[str, Raw]:
    """The same JSON values, each on one line."""
    return {key: Raw(msgspec.json.format(bytes(value), indent=-1)) for key, value in values.items()}
