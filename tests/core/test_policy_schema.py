"""The JSON Schema of a policy, and the validator: they agree on ten thousand policies, and neither ever crashes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from cruft_sched.core.policy import Budgets, Policy
from cruft_sched.core.policy_faults import check_policy, structural_faults
from cruft_sched.core.policy_schema import policy_schema
from cruft_sched.core.policy_text import BUDGETS, FIELDS
from cruft_sched.core.strict_json import parse_object
from cruft_sched.errors import DataError
from tests.docs_tables import DOCS, TABLES, between
from tests.support import cruft

FILE = Path(__file__).parents[2] / "policies" / "agent-policy.schema.json"
SCHEMA = policy_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
A_PART, PARTS = 1_250, 8

TEXTS = [
    "",
    "a",
    "agent.js",
    "agent.py",
    "é\u202e",
    "\x00",
    "a\n",
    "x" * 4097,
    "x" * 200,
    "A_B",
    "A=b",
    "A=b\n",
    "A=\x00",
]
TEXTS += ["run=/bin/true", "echo:TOKEN", "echo:TOKEN\n", "github.file.read:T", ":T", "1A", "strict", "offline", "null"]
NUMBERS = [
    0,
    1,
    2,
    3,
    4,
    16,
    -1,
    86_400_000,
    86_400_001,
    65_536,
    65_537,
    1 << 53,
    (1 << 53) + 1,
    1 << 63,
    1 << 70,
    0.5,
    -1e300,
]
ANYTHING: list[Any] = [None, True, False, [], {}, [[]], {"a": {}}, ["a", 1], {"a": "b"}, {"a": 1}, *TEXTS, *NUMBERS]


def of_schema(rules: dict[str, Any], rng: random.Random) -> Any:
    """A value that the schema describes, most often."""
    if "anyOf" in rules:
        return of_schema(rng.choice(rules["anyOf"]), rng)
    if "enum" in rules:
        return rng.choice(rules["enum"])
    kind = rules.get("type")
    if kind == "object":
        return _object(rules, rng)
    if kind == "array":
        return [of_schema(rules.get("items", {}), rng) for _ in range(rng.randrange(3))]
    if kind == "integer":
        low, high = rules.get("minimum", 0), rules.get("maximum", 1 << 53)
        return rng.choice([low, high, low - 1, high + 1, rng.randint(low, high)])
    return {"string": rng.choice(TEXTS), "boolean": rng.random() < 0.5, "null": None}.get(
        kind or "", rng.choice(ANYTHING)
    )


def _object(rules: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    known = rules.get("properties", {})
    names = [name for name in known if name in rules.get("required", ()) or rng.random() < 0.1]
    made = {name: of_schema(known[name], rng) for name in names}
    others = rules.get("additionalProperties")
    if isinstance(others, dict):
        made |= {rng.choice(TEXTS): of_schema(others, rng) for _ in range(rng.randrange(3))}
    return made


def mutated(tree: Any, rng: random.Random) -> Any:
    """The same with something else in one place."""
    if isinstance(tree, dict) and tree and rng.random() < 0.85:
        name = rng.choice(list(tree))
        change = rng.randrange(4)
        if change == 0:
            return {key: value for key, value in tree.items() if key != name}
        if change == 1:
            return tree | {rng.choice([*TEXTS, "Agent", "budget"]): rng.choice(ANYTHING)}
        return tree | {name: mutated(tree[name], rng)}
    if isinstance(tree, list) and tree and rng.random() < 0.7:
        at = rng.randrange(len(tree))
        return [*tree[:at], mutated(tree[at], rng), *tree[at + 1 :]]
    return rng.choice(ANYTHING)


@pytest.mark.parametrize("part", range(PARTS))
def test_the_schema_and_the_validator_agree(part: int, record_property: Callable[[str, object], None]) -> None:
    record_property("cases", A_PART)
    rng = random.Random(part)  # noqa: S311  # the same policies in every run
    accepted = 0
    for _ in range(A_PART):
        tree = of_schema(SCHEMA, rng)
        for _ in range(rng.randrange(3)):
            tree = mutated(tree, rng)
        data = json.dumps(tree).encode()
        try:
            read = parse_object(data, 1 << 20)
        except DataError:  # no object, or a number that no reader takes
            assert check_policy(data)[0] is None
            continue
        faults = structural_faults(read)
        assert (faults == []) == VALIDATOR.is_valid(json.loads(data)), (tree, faults)
        policy, all_faults = check_policy(data)
        assert (policy is None) == bool(all_faults)
        assert set(faults) <= set(all_faults)
        accepted += faults == []
    assert A_PART // 20 < accepted < A_PART


def test_the_schema_is_one_and_says_what_each_field_means() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["properties"]) == set(FIELDS) == {field.name for field in msgspec.structs.fields(Policy)}
    budgets = SCHEMA["properties"]["budgets"]["properties"]
    assert set(budgets) == set(BUDGETS) == {field.name for field in msgspec.structs.fields(Budgets)}
    for rules in (*SCHEMA["properties"].values(), *budgets.values()):
        assert rules["description"]


def test_the_shipped_schema_is_the_one_of_the_structs() -> None:
    shown = cruft("agent", "policy", "schema")
    assert (shown.code, shown.json) == (0, SCHEMA)
    assert FILE.read_text(encoding="utf-8") == shown.out


@pytest.mark.parametrize(("page", "name"), TABLES)
def test_the_docs_tables_are_the_codes(page: str, name: str) -> None:
    _, table, _ = between((DOCS / page).read_text(encoding="utf-8"), name)
    assert table == TABLES[page, name]()  # `python -m tests.docs_tables` writes it anew


def test_the_templates_hold_to_the_schema() -> None:
    templates = sorted(FILE.parent.glob("*/agent-policy.json"))
    assert len(templates) == 4
    for template in templates:
        VALIDATOR.validate(json.loads(template.read_text(encoding="utf-8")))
