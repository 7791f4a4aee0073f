"""Every fault of a policy at once, each with its JSON path."""

from __future__ import annotations

from typing import Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Raw, Struct

from cruft_sched.core.admitted import admitted_faults
from cruft_sched.core.policy import KNOWN_TOOLS, MAX_POLICY_BYTES, RESERVED_CONTEXT_KEY, Policy, decode_policy
from cruft_sched.core.strict_json import duplicate_keys, kind_of, parse_object
from cruft_sched.errors import DataError


def check_policy(data: bytes) -> tuple[Policy | None, list[str]]:
    """The policy in `data`, or None, and every fault found, one line each: `$.path: what is wrong`."""
    try:
        tree = parse_object(data, MAX_POLICY_BYTES)
    except DataError as error:
        return None, [f"$: {error.what}"]
    faults = duplicate_keys(tree, "$") + structural_faults(tree)
    context = tree.get("context")
    if isinstance(context, dict) and RESERVED_CONTEXT_KEY in context:
        faults.append(f"$.context.{RESERVED_CONTEXT_KEY}: is set by the engine alone")
    faults += _tool_faults(tree) + _list_faults(tree) + admitted_faults(tree)
    policy = None if faults else decode_policy(data)
    if policy is not None and _state_bytes(policy) > policy.budgets.max_state_bytes:
        return None, [f"$.state: is larger than max_state_bytes ({policy.budgets.max_state_bytes})"]
    return policy, faults


def structural_faults(tree: dict[str, Any]) -> list[str]:
    """The faults that the JSON Schema of a policy knows of, too: fields, types, bounds."""
    return _struct_faults(tree, Policy, "$")


def _tool_faults(tree: dict[str, Any]) -> list[str]:
    """What is wrong with the lists of tools: a tool needs to be known, listed once, and granted."""
    granted = _texts(tree, "tools")
    faults = [f"$.tools[{i}]: {_unknown(name)}" for i, name in enumerate(granted) if name not in KNOWN_TOOLS]
    faults += [f"$.tools[{i}]: is listed twice: {name!a}" for i, name in enumerate(granted) if name in granted[:i]]
    for field in ("approval_required_tools", "approved_tools"):
        names = _texts(tree, field)
        for i, name in enumerate(names):
            if name in names[:i]:
                faults.append(f"$.{field}[{i}]: is listed twice: {name!a}")
            elif name not in granted:
                faults.append(f"$.{field}[{i}]: is not among the tools: {name!a}")
    for i, secret in enumerate(_texts(tree, "secrets")):
        if secret.partition(":")[0] not in granted:
            faults.append(f"$.secrets[{i}]: is for a tool that is not among the tools: {secret!a}")
    return faults


def _unknown(name: str) -> str:
    if name in _SHELLS:
        return f"there is no shell: {name!a}; the tool `process` runs the commands of process_commands"
    return f"no such tool: {name!a}"


_SHELLS = frozenset(("shell", "exec", "spawn", "bash", "sh", "system"))


def _list_faults(tree: dict[str, Any]) -> list[str]:
    """Names that are given twice, where the first or the last one would win in silence."""
    faults = []
    for field in ("process_commands", "process_env"):
        names = [text.partition("=")[0] for text in _texts(tree, field)]
        faults += [f"$.{field}[{i}]: is given twice: {name!a}" for i, name in enumerate(names) if name in names[:i]]
    commands = [text.partition("=")[0] for text in _texts(tree, "process_commands")]
    patterns = tree.get("process_args")
    named = patterns if isinstance(patterns, dict) else {}
    return faults + [
        f"$.process_args.{name}: there is no command of that name in process_commands"
        for name in named
        if name not in commands
    ]


def _texts(tree: dict[str, Any], field: str) -> list[str]:
    """The texts of a list; what is no text is a fault of its own."""
    value = tree.get(field)
    return [str(item) for item in value] if isinstance(value, list) else []


def _state_bytes(policy: Policy) -> int:
    return len(msgspec.json.format(msgspec.json.encode(policy.state), indent=-1))


def _struct_faults(value: object, struct: type[Struct], path: str) -> list[str]:
    """Every fault of `value` as a `struct`: msgspec itself stops at the first."""
    if not isinstance(value, dict):
        return [f"{path}: expected an object, got {kind_of(value)}"]
    hints = get_type_hints(struct, include_extras=True)
    faults = [f"{path}.{key}: unknown field" for key in value if key not in hints]
    for field in msgspec.structs.fields(struct):
        if field.name in value:
            faults += _field_faults(value[field.name], hints[field.name], f"{path}.{field.name}")
        elif field.required:
            faults.append(f"{path}.{field.name}: required, and missing")
    return faults


def _field_faults(value: object, kind: Any, where: str) -> list[str]:
    """Every fault of a field, item by item where it has items."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _struct_faults(value, kind, where)
    inner = _items(kind)
    if isinstance(value, dict) and inner is not None and inner[0] is dict:
        return [fault for key, item in value.items() for fault in _fault(item, inner[1], f"{where}.{key}")]
    if isinstance(value, list) and inner is not None and inner[0] is list:
        return [fault for i, item in enumerate(value) for fault in _fault(item, inner[1], f"{where}[{i}]")]
    return _fault(value, kind, where)


def _items(kind: Any) -> tuple[type, Any] | None:
    """Which container a field is, or may be, and of what; None where it is none."""
    for one in (kind, *get_args(kind)):
        container = get_origin(one)
        if container in (list, dict):
            return container, get_args(one)[-1]
    return None


def _fault(value: object, kind: Any, where: str) -> list[str]:
    """The first fault of a value. A Raw one is any JSON."""
    if kind is Raw or kind is Any:
        return []
    try:
        msgspec.convert(value, dict[str, Any] if kind == dict[str, Raw] else kind, strict=True)
    except msgspec.ValidationError as error:
        what, _, inner = str(error).partition(" - at `$")
        return [f"{where}{inner.rstrip('`')}: {what}"]
    return []
