"""`cruft agent tool`, and what every tool of the catalogue holds to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cruft_sched.core.answers import schema_fault
from cruft_sched.core.policy import KNOWN_TOOLS
from cruft_sched.tools.registry import TOOLS
from tests.support import Project, cruft, schedule


def test_the_catalogue_is_listed() -> None:
    listed = cruft("agent", "tool", "list").json
    assert [tool["name"] for tool in listed["tools"]] == sorted(TOOLS)
    checkable = cruft("agent", "tool", "list", "--checkable").json["tools"]
    assert [tool["name"] for tool in checkable] == [name for name in sorted(TOOLS) if TOOLS[name].checkable]
    human = cruft("agent", "tool", "list", "--output", "human").out
    assert human.splitlines()[1].split()[:2] == ["echo", "read"]


def test_a_tool_is_shown() -> None:
    shown = cruft("agent", "tool", "show", "slow")
    assert shown.json["args"]["properties"]["delay_ms"] == {"type": "integer", "minimum": 0}
    assert shown.json["needs"] == ["tools"]
    human = cruft("agent", "tool", "show", "slow", "--output", "human").out
    assert "a check can compare: ok, value" in human
    unknown = cruft("agent", "tool", "show", "nope")
    assert (unknown.code, unknown.out) == (65, "")
    assert "`cruft agent tool list`" in unknown.err


TOOLS_MODULES = ["echo", "fail", "slow", "read_file", "list_files", "write_artifact"]


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_is_described(name: str) -> None:
    tool = TOOLS[name]
    assert name in KNOWN_TOOLS
    assert schema_fault(tool.args) is None
    assert tool.about
    assert "\n" not in tool.about


def test_no_tool_is_imported_before_it_is_called() -> None:
    code = (
        "import sys, cruft_sched.ops.advance, cruft_sched.tools.registry\n"
        "print([name for name in sys.modules if name.startswith('cruft_sched.tools.')])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert b"registry" in said
    assert [name for name in TOOLS_MODULES if name.encode() in said] == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("agent.js", 'const r = context.scheduler_resume; r ? close(r) : scheduler.callTool("slow", {delay_ms: -1})'),
        (
            "agent.py",
            'r = context.get("scheduler_resume")\nclose(r) if r else scheduler.call_tool("slow", {"delay_ms": -1})',
        ),
    ],
)
def test_arguments_that_a_durable_tool_does_not_take(file: str, source: str, tmp_path: Path) -> None:
    project = Project(tmp_path, source, file, tools=["slow"])
    project.start()
    for _ in range(2):
        assert schedule("tick", "job", "--store", project.root).code == 0
    told = schedule("status", "job", "--store", project.root).json["result"]
    assert told["error"] == {
        "message": "the arguments of slow are refused: $.delay_ms: does not hold to minimum 0",
        "disposition": "error",
        "tool": "slow",
    }
