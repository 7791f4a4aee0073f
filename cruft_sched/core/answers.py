"""The schema of an answer: a subset of JSON Schema that takes time in proportion to what it checks.

Known: type, enum, const, properties, required, additionalProperties, items, minimum, maximum, minLength, maxLength,
minItems, maxItems; and title, description, default, which check nothing. Anything else is an error when the wait is
asked for: a keyword that is silently passed over would let through what it was written to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: TYPES["number"](value) and (isinstance(value, int) or value.is_integer()),
}

_MAX_DEPTH = 20


def schema_fault(schema: object, path: str = "$", depth: int = 0) -> str | None:
    """The first fault of a schema, or None."""
    if isinstance(schema, bool):
        return None
    if not isinstance(schema, dict):
        return f"{path}: a schema is an object or a boolean"
    if depth > _MAX_DEPTH:
        return f"{path}: is nested more than {_MAX_DEPTH} deep"
    for keyword, value in schema.items():
        if keyword not in _SHAPES:
            return f"{path}.{keyword}: this keyword is not known here"
        if not _SHAPES[keyword](value):
            return f"{path}.{keyword}: has the wrong form"
    inner = {f"{path}.properties.{name}": value for name, value in schema.get("properties", {}).items()}
    inner |= {f"{path}.{name}": schema[name] for name in ("items", "additionalProperties") if name in schema}
    faults = (schema_fault(value, where, depth + 1) for where, value in inner.items())
    return next((fault for fault in faults if fault is not None), None)


def answer_fault(answer: object, schema: object, path: str = "$") -> str | None:
    """The first fault of an answer against a schema that has none, or None."""
    if isinstance(schema, bool):
        return None if schema else f"{path}: is not allowed"
    if not isinstance(schema, dict):
        return None
    for keyword, check in _CHECKS.items():
        if keyword in schema and not check(answer, schema[keyword]):
            return f"{path}: does not hold to {keyword} {_brief(schema[keyword])}"
    if isinstance(answer, dict):
        return _object_fault(answer, schema, path)
    if isinstance(answer, list) and "items" in schema:
        faults = (answer_fault(item, schema["items"], f"{path}[{i}]") for i, item in enumerate(answer))
        return next((fault for fault in faults if fault is not None), None)
    return None


def event_fault(event: dict[str, Any], schemas: dict[str, Any]) -> str | None:
    """The first fault of an event, where `schemas` has one for each kind that there may be, or None."""
    kind = event.get("kind")
    if not isinstance(kind, str):
        return "$.kind: is required, and a text"
    if kind not in schemas:
        return f"$.kind: no event of the kind {_brief(kind)} is expected"
    return answer_fault(event, schemas[kind])


def same(left: object, right: object) -> bool:
    """Whether two JSON values are the same one: 1 and 1.0 are, true and 1 are not."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def _object_fault(answer: dict[str, Any], schema: dict[str, Any], path: str) -> str | None:
    missing = [name for name in schema.get("required", ()) if name not in answer]
    if missing:
        return f"{path}.{missing[0]}: is required, and missing"
    properties = schema.get("properties", {})
    rest = schema.get("additionalProperties", True)
    for name, value in answer.items():
        fault = answer_fault(value, properties.get(name, rest), f"{path}.{name}")
        if fault is not None:
            return fault
    return None


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _is_type(value: object) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in TYPES for name in names)


def _is_count(value: object) -> bool:
    return TYPES["integer"](value) and value >= 0  # type: ignore[operator]  # an integer, by the line's first half


def _anything(_value: object) -> bool:
    return True


_SHAPES: dict[str, Callable[[Any], bool]] = {
    "type": _is_type,
    "enum": TYPES["array"],
    "const": _anything,
    "properties": TYPES["object"],
    "required": lambda value: isinstance(value, list) and all(isinstance(name, str) for name in value),
    "additionalProperties": _anything,
    "items": _anything,
    "minimum": TYPES["number"],
    "maximum": TYPES["number"],
    "minLength": _is_count,
    "maxLength": _is_count,
    "minItems": _is_count,
    "maxItems": _is_count,
    "title": TYPES["string"],
    "description": TYPES["string"],
    "default": _anything,
}

_CHECKS: dict[str, Callable[[Any, Any], bool]] = {
    "type": lambda value, names: any(TYPES[name](value) for name in (names if isinstance(names, list) else [names])),
    "enum": lambda value, choices: any(same(value, choice) for choice in choices),
    "const": same,
    "minimum": lambda value, least: not TYPES["number"](value) or value >= least,
    "maximum": lambda value, most: not TYPES["number"](value) or value <= most,
    "minLength": lambda value, least: not isinstance(value, str) or len(value) >= least,
    "maxLength": lambda value, most: not isinstance(value, str) or len(value) <= most,
    "minItems": lambda value, least: not isinstance(value, list) or len(value) >= least,
    "maxItems": lambda value, most: not isinstance(value, list) or len(value) <= most,
}
