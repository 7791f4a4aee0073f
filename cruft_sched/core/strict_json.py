"""JSON that a person wrote, by RFC 8259 to the letter: a key given twice, NaN and deep nesting are faults."""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec

from cruft_sched.core.depth import MAX_DEPTH, too_deep
from cruft_sched.errors import DataError

_ESCAPED_SURROGATE = b"\\ud"


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
        raise DataError(f"it is {kind_of(tree)} and not an object", "correct it and try again")
    return tree


def parse_json(data: bytes, max_bytes: int, max_depth: int = MAX_DEPTH) -> Any:
    """Parse JSON that a person wrote, by RFC 8259 to the letter: UTF-8, no NaN. Raises DataError."""
    if len(data) > max_bytes:
        raise DataError(f"it is {len(data)} bytes long, and {max_bytes} are allowed", "shorten it")
    if too_deep(data, max_depth):
        raise DataError(f"it is nested more than {max_depth} deep", "flatten it")

    import json  # here, since a tick never parses a policy that was not checked before

    try:
        msgspec.json.decode(data)  # the strict one: encoding, lone surrogates, trailing commas
        tree = json.loads(data, object_pairs_hook=_Object, parse_constant=_no_constant)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise DataError(_not_read(data, error), "correct it and try again") from None
    return tree


def _not_read(data: bytes, error: Exception) -> str:
    if not data.strip():
        return "it is empty"
    if "out of range" in str(error) or "integer string conversion" in str(error):
        return "it holds a number that is too large for JSON's readers"
    if "truncated" in str(error) and _ESCAPED_SURROGATE in data.lower():
        return "it holds half of a surrogate pair, or its end is missing"
    return f"it is not JSON ({error})"


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


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def kind_of(value: object) -> str:
    """What a value is called in a sentence."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "an object" if isinstance(value, dict) else "a number")
