"""Every fault of a policy at once, each with its JSON path."""

from __future__ import annotations

from typing import Any, get_type_hints

import msgspec
from msgspec import Raw, Struct

from cruft_sched.core.admitted import admitted_faults
from cruft_sched.core.policy import KNOWN_TOOLS, MAX_POLICY_BYTES, RESERVED_CONTEXT_KEY, Policy, Text, decode_policy
from cruft_sched.core.strict_json import duplicate_keys, kind_of, parse_object
from cruft_sched.errors import DataError

_FILES = (dict[str, Text], dict[str, Text] | None)


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


def _struct_faults(value: object, struct: type[Struct], path: str) -> list[str]:
    """Every fault of `value` as a `struct`: msgspec itself stops at the first."""
    if not isinstance(value, dict):
        return [f"{path}: expected an object, got {kind_of(value)}"]
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
