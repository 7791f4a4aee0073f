"""The tables of the docs that are made from the code: `python -m tests.docs_tables` writes them anew."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cruft_sched.core.audit_kinds import KINDS
from cruft_sched.core.policy import Budgets, Policy
from cruft_sched.core.policy_text import BUDGETS, FIELDS
from cruft_sched.ops.tools import list_tools

DOCS = Path(__file__).parents[1] / "docs"


def fields() -> str:
    """The fields of a policy."""
    rows = ["| field | default | meaning |", "|---|---|---|"]
    for field in msgspec.structs.fields(Policy):
        default = "required" if field.required else _default(getattr(Policy(agent="a", audit_log="b"), field.name))
        rows.append(f"| `{field.name}` | {default} | {FIELDS[field.name]} |")
    return "\n".join(rows)


def budgets() -> str:
    """The budgets of a policy."""
    rows = ["| budget | default | over it |", "|---|---|---|"]
    for name, meaning in BUDGETS.items():
        rows.append(f"| `{name}` | {_default(getattr(Budgets(), name))} | {meaning} |")
    return "\n".join(rows)


def kinds() -> str:
    """The lines of an audit log."""
    rows = ["| type | fields |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{kind}` | {meaning} |" for kind, meaning in KINDS.items())])


def tools() -> str:
    """The catalogue of tools."""
    rows = ["| tool | effect | does | needs of the policy | a check can compare |", "|---|---|---|---|---|"]
    for tool in list_tools().tools:
        effect = tool.effect + (", idempotent" if tool.effect == "write" and tool.repeatable else "")
        needs, checkable = (", ".join(f"`{name}`" for name in names) for names in (tool.needs, tool.checkable))
        rows.append(f"| `{tool.name}` | {effect} | {tool.about} | {needs} | {checkable} |")
    return "\n".join(rows)


TABLES = {
    ("policy.md", "fields"): fields,
    ("policy.md", "budgets"): budgets,
    ("audit.md", "kinds"): kinds,
    ("tools.md", "tools"): tools,
}


def _default(value: object) -> str:
    if isinstance(value, bool) or value is None or value in ([], {}) or isinstance(value, Budgets):
        return ""
    return f"{value:,}" if isinstance(value, int) else f"`{value}`"


def between(text: str, name: str) -> tuple[str, str, str]:
    """A page before a table, the table, and the page after it."""
    start, end = f"<!-- table: {name} -->\n", f"\n<!-- end: {name} -->"
    before, _, rest = text.partition(start)
    table, _, after = rest.partition(end)
    return before + start, table, end + after


def main() -> None:
    for (page, name), table in TABLES.items():
        path = DOCS / page
        before, _, after = between(path.read_text(encoding="utf-8"), name)
        path.write_text(before + table() + after, encoding="utf-8")


if __name__ == "__main__":
    main()
