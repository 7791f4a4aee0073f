"""The worked examples that the project started from, through the installed program, in both languages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.test_nap import until_ready
from tests.support import Project, schedule

AGENTS = {
    "nap": {
        "agent.js": """
            if (context.scheduler_resume) emit({kind:"awake"});
            else { emit({kind:"sleeping"}); scheduler.sleep(25); }
        """,
        "agent.py": """
if context.get("scheduler_resume"): emit({"kind": "awake"})
else: emit({"kind": "sleeping"}); scheduler.sleep(25)
""",
    },
    "approval": {
        "agent.js": """
            const r = context.scheduler_resume;
            if (r) emit({kind: "delivered", approved: r.result.approved === true});
            else scheduler.waitForInput("approval", { subject: "deploy" })
        """,
        "agent.py": """
r = context.get("scheduler_resume")
if r: emit({"kind": "delivered", "approved": r["result"]["approved"] is True})
else: scheduler.waitForInput("approval", {"subject": "deploy"})
""",
    },
    "tool": {
        "agent.js": """
            if (context.scheduler_resume) {
              const r = context.scheduler_resume;
              emit({ kind: "resumed", got: r.result });
            } else {
              emit({ kind: "asking" });
              scheduler.callTool("echo", { value: context.goal });
            }
        """,
        "agent.py": """
if context.get("scheduler_resume"):
    r = context["scheduler_resume"]
    emit({"kind": "resumed", "got": r["result"]})
else:
    emit({"kind": "asking"})
    scheduler.call_tool("echo", {"value": context["goal"]})
""",
    },
}
both = pytest.mark.parametrize("name", ["agent.js", "agent.py"])


@both
def test_a_durable_sleep_that_survives_restarts(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path, AGENTS["nap"][name], name)
    store = ["--store", project.root]
    assert schedule("start", "--policy", str(project.policy), *store, "--job-id=nap").code == 0
    assert schedule("tick", "nap", *store).json["status"] == "awaiting_timer"
    assert project.events() == [{"kind": "sleeping"}]
    done = until_ready("nap", project.root)
    assert (done["status"], done["turn_cursor"]) == ("completed", 2)
    assert project.events() == [{"kind": "sleeping"}, {"kind": "awake"}]
    again = schedule("tick", "nap", *store)
    assert (again.code, again.out) == (75, "")


@both
def test_a_human_approval_gate(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path, AGENTS["approval"][name], name)
    store = ["--store", project.root]
    schedule("start", "--policy", str(project.policy), *store, "--job-id", "deploy")
    first = schedule("tick", "deploy", *store)
    assert (first.json["status"], "token" in first.json) == ("awaiting_input", False)
    ticked = schedule("tick", "deploy", *store)
    assert ticked.code == 75
    assert "a person must answer" in ticked.err
    wrong = schedule("input", "deploy", *store, "--token", "wrong", "--json", '{"approved":true}')
    assert (wrong.code, wrong.out) == (76, "")
    assert "input token does not match pending wait" in wrong.err
    assert schedule("status", "deploy", *store).json["status"] == "awaiting_input"
    token = schedule("token", "deploy", *store).json["token"]
    broken = schedule("input", "deploy", *store, "--token", token, "--json", "{")
    assert (broken.code, broken.out) == (65, "")
    right = schedule("input", "deploy", *store, "--token", token, "--json", '{"approved":true}')
    assert (right.code, right.json["type"], right.json["status"]) == (0, "agent_scheduler_input", "completed")
    assert project.events() == [{"kind": "delivered", "approved": True}]
    late = schedule("input", "deploy", *store, "--token", token, "--json", '{"approved":true}')
    assert late.code == 75


@both
def test_a_cumulative_turn_budget(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path, AGENTS["nap"][name], name, budgets={"max_scheduler_turns": 1})
    store = ["--store", project.root]
    schedule("start", "--policy", str(project.policy), *store, "--job-id", "over")
    first = schedule("tick", "over", *store).json
    assert (first["status"], first["turn_cursor"]) == ("awaiting_timer", 1)
    while (over := schedule("tick", "over", *store)).code == 0:
        assert over.json["ready"] is False
    assert over.code == 70
    assert over.json == {
        "type": "agent_scheduler_budget_exceeded",
        "schema_version": 1,
        "job_id": "over",
        "status": "expired",
        "budget": "max_scheduler_turns",
        "limit": 1,
        "attempted": 2,
        "attempted_turn": 2,
    }
    assert project.events() == [{"kind": "sleeping"}]
    assert schedule("tick", "over", *store).code == 75


@both
def test_a_durable_tool_call(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path, AGENTS["tool"][name], name, tools=["echo"], context={"goal": "g"})
    store = ["--store", project.root]
    schedule("start", "--policy", str(project.policy), *store, "--job-id", "job")
    assert schedule("tick", "job", *store).json["status"] == "awaiting_tool"
    assert schedule("tick", "job", *store).json["status"] == "completed"
    assert project.events() == [{"kind": "asking"}, {"kind": "resumed", "got": {"value": "g"}}]
    assert schedule("tick", "job", *store).code == 75


@both
@pytest.mark.parametrize("tool", ["echo", "npm.metadata"])
def test_a_tool_that_is_not_granted_or_not_durable(tmp_path: Path, name: str, tool: str) -> None:
    source = f'scheduler.callTool("{tool}", {{}})'
    project = Project(tmp_path, source, name, tools=["npm.metadata"])
    project.start()
    schedule("tick", "job", "--store", project.root)
    before = project.manifest_file().read_bytes()
    refused = schedule("tick", "job", "--store", project.root)
    assert (refused.code, refused.out) == (76, "")
    what = 'tool "echo" is not allowed by policy' if tool == "echo" else f'durable tool "{tool}" is not available'
    assert what in refused.err
    assert project.manifest_file().read_bytes() == before


EXAMPLES = sorted(path.name for path in Path("examples").iterdir() if path.is_dir())
POLICIES = ["agent-policy.json", "agent-policy.python.json"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_runs_as_its_readme_says(tmp_path: Path, example: str, policy: str) -> None:
    copy = tmp_path / example
    copy.mkdir()
    for file in Path("examples", example).iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    store = ["--store", str(tmp_path / "store")]
    assert schedule("start", "--policy", str(copy / policy), *store, "--job-id", "job").code == 0
    if example == "04-budget":
        assert schedule("tick", "job", *store).json["status"] == "awaiting_timer"
        assert schedule("tick", "job", *store).code == 70
        return
    if example == "02-approval":
        schedule("tick", "job", *store)
        token = schedule("token", "job", *store).json["token"]
        answer = '{"approved": true}'
        assert schedule("input", "job", *store, "--token", token, "--json", answer).json["status"] == "completed"
        return
    swept = schedule("tick", "--due", "--drain", "--for", "20s", *store)
    assert swept.code == 0
    assert schedule("status", "job", *store).json["status"] == "completed"
    assert len((copy / "README.md").read_text().splitlines()) <= 7
    assert sorted(os.listdir(copy)) == sorted({*os.listdir(Path("examples", example)), "audit.jsonl"})
