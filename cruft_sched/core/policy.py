"""`agent-policy.json`: which agent, with which authority, within which budgets.

Strict: an unknown field, a key given twice, a wrong type are all reported at once, each with its JSON path.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NoReturn, get_type_hints

import msgspec
from msgspec import Meta, Raw, Struct

from cruft_sched.core.admitted import admitted_faults
from cruft_sched.core.depth import MAX_DEPTH, too_deep
from cruft_sched.errors import DataError

MAX_POLICY_BYTES = 1 << 20
RESERVED_CONTEXT_KEY = "scheduler_resume"
"""The key of the context that only the engine sets: an agent branches on it."""

KNOWN_TOOLS = frozenset(
    (
        *("echo", "fail", "slow", "listFiles", "readFile", "writeArtifact", "process", "model.call"),
        *("osv.query", "npm.metadata", "github.issue.read", "github.pr.read", "github.pr.files.list"),
        *("github.release.latest.read", "github.file.read", "github.compare.read", "github.commit.read"),
        *("github.repo.read", "github.workflow.run.read", "github.workflow.jobs.list", "github.check.runs.list"),
    )
)
"""The names a policy may list: the public catalogue. Which of them can be called durably is another question."""

Text = Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"\A[^\0]*\Z")]
Milliseconds = Annotated[int, Meta(ge=1, le=86_400_000)]


class Budgets(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one turn, one tool call, and (the last two) one job may use."""

    timeout_ms: Milliseconds = 30_000
    max_steps: Annotated[int, Meta(ge=1, le=1 << 53)] | None = None
    max_microtasks: Annotated[int, Meta(ge=1, le=1 << 53)] = 100_000
    max_rss_mb: Annotated[int, Meta(ge=16, le=65_536)] = 256
    max_events: Annotated[int, Meta(ge=0, le=1_000_000)] = 1_000
    max_event_bytes: Annotated[int, Meta(ge=2, le=16 << 20)] = 64 << 10
    max_state_bytes: Annotated[int, Meta(ge=2, le=16 << 20)] = 256 << 10
    max_tool_arg_bytes: Annotated[int, Meta(ge=2, le=16 << 20)] = 256 << 10
    max_tool_result_bytes: Annotated[int, Meta(ge=2, le=16 << 20)] = 1 << 20
    tool_timeout_ms: Milliseconds = 30_000
    max_scheduler_turns: Annotated[int, Meta(ge=1, le=1 << 53)] | None = None
    max_age_ms: Annotated[int, Meta(ge=1, le=1 << 53)] | None = None


Isolation = Literal["strict", "process"]
"""How a turn's process is confined: by the whole compartment, or by being a process with limits, and no more."""


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields that this version understands; any other is refused."""

    schema_version: Literal[1] = 1
    agent: Text
    audit_log: Text
    audit_log_max_bytes: Annotated[int, Meta(ge=65536)] | None = 64 << 20
    redact_fields: list[Text] = []
    isolation: Isolation = "strict"
    profile: Text | None = None
    context: dict[str, Raw] = {}
    state: dict[str, Raw] = {}
    tools: list[Text] = []
    modules: dict[str, Text] = {}
    packages: dict[str, Text] = {}
    package_integrity: dict[str, Text] = {}
    expected_events: dict[str, Text] | None = None
    budgets: Budgets = Budgets()


_FILES = (dict[str, Text], dict[str, Text] | None)


def decode_policy(data: bytes) -> Policy:
    """The policy in bytes whose hash says that they were checked before."""
    return msgspec.json.decode(data, type=Policy)


def check_policy(data: bytes) -> tuple[Policy | None, list[str]]:
    """The policy in `data`, or None, and every fault found, one line each: `$.path: what is wrong`."""
    try:
        tree = parse_object(data, MAX_POLICY_BYTES)
    except DataError as error:
        return None, [f"$: {error.what}"]
    faults = duplicate_keys(tree, "$") + _struct_faults(tree, Policy, "$")
    context = tree.get("context")
    if isinstance(context, dict) and RESERVED_CONTEXT_KEY in context:
        faults.append(f"$.context.{RESERVED_CONTEXT_KEY}: is set by the engine alone")
    faults = faults + _tool_faults(tree.get("tools")) + admitted_faults(tree)
    policy = None if faults else decode_policy(data)
    if policy is not None and _state_bytes(policy) > policy.budgets.max_state_bytes:
        return None, [f"$.state: is larger than max_state_bytes ({policy.budgets.max_state_bytes})"]
    return policy, faults


def _tool_faults(tools: object) -> list[str]:
    if not isinstance(tools, list):
        return []
    unknown = [f"$.tools[{i}]: no such tool: {name!a}" for i, name in enumerate(tools) if str(name) not in KNOWN_TOOLS]
    twice = [f"$.tools[{i}]: is listed twice: {name!a}" for i, name in enumerate(tools) if name in tools[:i]]
    return unknown + twice


def _state_bytes(policy: Policy) -> int:
    return len(msgspec.json.format(msgspec.json.encode(policy.state), indent=-1))


class _Object(dict[str, Any]):
    """A JSON object that remembers which of its keys were given twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        seen: set[str] = set()
        self.twice: list[str] = []
        for key, _ in pairs if len(pairs) > len(self) else ():
            if key in seen:
                self.twice.append(key)
            seen.add(key)


def parse_object(data: bytes, max_bytes: int) -> dict[str, Any]:
    """Parse one JSON object, as `parse_json` does. Raises DataError."""
    tree = parse_json(data, max_bytes)
    if not isinstance(tree, dict):
        raise DataError(f"it is {_name(tree)} and not an object", "correct it and try again")
    return tree


def parse_json(data: bytes, max_bytes: int) -> Any:
    """Parse JSON that a person wrote, by RFC 8259 to the letter: UTF-8, no NaN. Raises DataError."""
    if len(data) > max_bytes:
        raise DataError(f"it is {len(data)} bytes long, and {max_bytes} are allowed", "shorten it")
    if too_deep(data):
        raise DataError(f"it is nested more than {MAX_DEPTH} deep", "flatten it")

    import json  # here, since a tick never parses a policy that was not checked before

    try:
        msgspec.json.decode(data)  # the strict one: encoding, lone surrogates, trailing commas
        tree = json.loads(data, object_pairs_hook=_Object, parse_constant=_no_constant)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise DataError(f"it is not JSON ({error})", "correct it and try again") from None
    return tree


def duplicate_keys(value: object, path: str) -> list[str]:
    """A fault for every key that stands twice in one object, at any depth."""
    if isinstance(value, list):
        return [fault for i, item in enumerate(value) for fault in duplicate_keys(item, f"{path}[{i}]")]
    if not isinstance(value, _Object):
        return []
    faults = [f"{path}.{key}: the key is given twice" for key in value.twice]
    for key, item in value.items():
        faults += duplicate_keys(item, f"{path}.{key}")
    return faults


def _struct_faults(value: object, struct: type[Struct], path: str) -> list[str]:
    """Every fault of `value` as a `struct`: msgspec itself stops at the first."""
    if not isinstance(value, dict):
        return [f"{path}: expected an object, got {_name(value)}"]
    hints = get_type_hints(struct, include_extras=True)
    faults = [f"{path}.{key}: unknown field" for key in value if key not in hints]
    for field in msgspec.structs.fields(struct):
        where, kind = f"{path}.{field.name}", hints[field.name]
        if field.name not in value:
            faults += [f"{where}: required, and missing"] if field.required else []
        elif isinstance(kind, type) and issubclass(kind, Struct):
            faults += _struct_faults(value[field.name], kind, where)
        elif kind in _FILES and isinstance(value[field.name], dict):
            for key, file in value[field.name].items():
                faults += _field_fault(file, Text, f"{where}.{key}")
        else:
            faults += _field_fault(value[field.name], kind, where)
    return faults


def _field_fault(value: object, kind: Any, where: str) -> list[str]:
    if kind == dict[str, Raw]:
        kind = dict[str, Any]
    try:
        msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        what, _, inner = str(error).partition(" - at `$")
        return [f"{where}{inner.rstrip('`')}: {what}"]
    return []


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _name(value: object) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "an object" if isinstance(value, dict) else "a number")
