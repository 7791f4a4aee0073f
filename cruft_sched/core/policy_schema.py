"""The JSON Schema of a policy, made from its structs."""

from __future__ import annotations

from typing import Any

import msgspec

from cruft_sched.core.policy import Policy
from cruft_sched.core.policy_text import BUDGETS, FIELDS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DEFAULT = {
    "title": "agent-policy.json",
    "description": "Which agent runs, with which authority, within which budgets. Nothing is granted that it does not "
    "grant. Strict: `cruft agent policy validate` also checks what a schema cannot.",
}


def policy_schema() -> dict[str, Any]:
    """The schema: structure, types and bounds. What needs a look at the disk, or at two fields, is not in it."""
    made = msgspec.json.schema(Policy)
    policy, budgets = made["$defs"]["Policy"], made["$defs"]["Budgets"]
    _describe(policy, FIELDS)
    _describe(budgets, BUDGETS)
    budgets["description"] = "What one turn, one tool call, and (the last two) one job may use."
    policy["properties"]["budgets"] = {"description": FIELDS["budgets"], **budgets}
    return {"$schema": DIALECT, **policy, **_DEFAULT}


def _describe(schema: dict[str, Any], texts: dict[str, str]) -> None:
    schema["properties"] = {name: {"description": texts[name], **rules} for name, rules in schema["properties"].items()}
