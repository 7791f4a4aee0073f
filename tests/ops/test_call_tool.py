"""Tools within a turn, as a job sees them: the ledger, the audit log, and what ends a turn in a call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from cruft_sched.core.sealing import digest
from cruft_sched.ops.reports import Moved
from cruft_sched.ops.run import run as run_once
from cruft_sched.ops.tick import tick
from cruft_sched.stores.file import CancelRequest
from cruft_sched.tools import registry
from cruft_sched.tools.tool import Call, Tool, as_json
from tests.ops.waiting import run
from tests.support import Project

TOOLS = ["echo", "fail", "slow"]
TWO_TURNS = {
    "agent.js": """
        await callTool("echo", {n: 1}); await callTool("fail").catch(() => {}); await callTool("nope").catch(() => {});
        auditNote("between"); emit({});
        if (!context.scheduler_resume) scheduler.callTool("echo", 5);
    """,
    "agent.py": """
call_tool("echo", {"n": 1})
for name in ("fail", "nope"):
    try: call_tool(name)
    except ToolError: pass
audit_note("between"); emit({})
if "scheduler_resume" not in context: scheduler.call_tool("echo", 5)
""",
}


@pytest.mark.parametrize("name", TWO_TURNS)
def test_calls_are_counted_when_their_turn_is_committed(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path, TWO_TURNS[name], name, tools=TOOLS)
    project.start()
    assert run(project).status == "awaiting_tool"
    assert project.store.load("job").budget_ledger.tools == 2
    assert run(project).status == "completed"
    ledger = project.store.load("job").budget_ledger
    assert (ledger.tools, ledger.events) == (2 + 1 + 2, 2)  # one of them durable
    calls = ["tool_call", "tool_result", "tool_call", "tool_error", "tool_denial", "note", "emit"]
    assert [line["type"] for line in project.audit()] == [
        *("run_start", *calls, "scheduler_await", "run_end"),
        *("run_start", "tool_call", "tool_result"),  # the durable one, whose outcome this turn is told
        *(*calls, "run_end"),
    ]
    assert [line["tools"] for line in project.audit() if line["type"] == "run_end"] == [2, 2]
    assert project.audit()[1]["args"] == {"n": 1}


@pytest.mark.parametrize(
    ("name", "agent"),
    [
        ("agent.js", 'await callTool("echo"); throw 1'),
        ("agent.py", "call_tool('echo')\nraise ValueError"),
    ],
)
def test_calls_of_a_failed_turn_do_not_count(tmp_path: Path, name: str, agent: str) -> None:
    project = Project(tmp_path, agent, name, tools=TOOLS)
    project.start()
    assert run(project).status == "failed"
    assert project.store.load("job").budget_ledger.tools == 0
    assert project.audit()[-1]["tools"] == 1


def test_a_budget_is_in_the_log_before_the_end_of_the_run(tmp_path: Path) -> None:
    project = Project(tmp_path, "emit({}); emit({}); emit({})", budgets={"max_events": 2})
    project.start()
    assert run(project).status == "failed"
    over, end = project.audit()[-2:]
    assert (over["type"], over["budget"], over["limit"], over["attempted"]) == ("budget_exceeded", "max_events", 2, 3)
    assert end["error"] == {"kind": "budget_exceeded", "budget": "max_events", "limit": 2, "attempted": 3}
    assert "limit 2, attempted 3" in str(project.store.load("job").error)


def test_outside_a_job_tools_are_there_too(tmp_path: Path) -> None:
    project = Project(tmp_path, 'close(await callTool("echo", 5))', tools=TOOLS)
    ran = run_once(str(project.policy), project.clock)
    assert (ran.status, bytes(ran.result or b""), ran.tools) == ("completed", b"5", 1)
    assert [line["type"] for line in project.audit()] == ["run_start", "tool_call", "tool_result", "run_end"]


def install(monkeypatch: pytest.MonkeyPatch, function: Any, **kind: Any) -> None:
    monkeypatch.setattr(registry, "catalogue", lambda: {"echo": Tool(run=function, **kind)})


def test_a_call_is_in_the_log_before_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    project = Project(tmp_path, 'emit({n: 1}); await callTool("echo"); emit({n: 2})', tools=TOOLS)

    def look(_call: Call) -> Raw:
        seen.append([line["type"] for line in project.audit()])
        return as_json(None)

    install(monkeypatch, look)
    project.start()
    assert run(project).status == "completed"
    assert seen == [["run_start", "emit", "tool_call"]]


def test_a_tool_that_writes_is_not_reached_from_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Call] = []

    def write(call: Call) -> Raw:
        calls.append(call)
        return as_json("written")

    install(monkeypatch, write, effect="write", idempotent=True)
    source = 'close(await callTool("echo").catch(e => e.disposition))'
    project = Project(tmp_path, source, tools=TOOLS)
    project.start()
    run(project)
    assert (bytes(project.store.load("job").result), calls) == (b'"denied"', [])
    assert bytes(run_once(str(project.policy), project.clock).result or b"") == b'"written"'
    assert len(calls) == 1


@pytest.mark.parametrize("ended_by", ["stop", "cancel"])
def test_what_ends_the_turn_ends_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended_by: str) -> None:
    project = Project(tmp_path, 'await callTool("echo"); emit({})', tools=TOOLS)
    project.start()
    uid = project.store.load("job").uid
    stopped: list[bool] = []

    def slow(call: Call) -> Raw:
        if ended_by == "cancel":
            project.store.request_cancel("job", CancelRequest(uid=uid))
        else:
            stopped.append(True)
        call.pause(60_000)
        return as_json("late")

    install(monkeypatch, slow)
    if ended_by == "cancel":
        report = tick(project.store, "job", project.clock)
        assert isinstance(report, Moved)
        assert report.status == "cancelled"
    else:
        with pytest.raises(KeyboardInterrupt):
            tick(project.store, "job", project.clock, stop=lambda: bool(stopped))
        assert project.store.load("job").status == "created"
    kinds = [line["type"] for line in project.audit()]
    assert kinds[:3] == ["run_start", "tool_call", "run_end"]
    assert project.audit()[2]["status"] == ("cancelled" if ended_by == "cancel" else "interrupted")


def test_many_lines_are_one_chain_in_order(tmp_path: Path) -> None:
    source = "for (let i = 0; i < 3000; i++) emit({i})"
    project = Project(tmp_path, source, budgets={"max_events": 3000})
    project.start()
    assert run(project).status == "completed"
    assert [event["i"] for event in project.events()] == list(range(3000))
    lines = (tmp_path / "audit.jsonl").read_bytes().splitlines()
    before = None
    for line in lines:
        assert json.loads(line)["prev"] == before
        before = digest(line)
    audit = project.store.load("job").audit
    assert audit is not None
    assert (audit.lines, audit.head) == (3002, before)


def test_what_was_emitted_is_in_the_log_while_the_turn_goes_on(tmp_path: Path) -> None:
    project = Project(tmp_path, "emit({n: 1}); while (true);")
    project.start()

    def stop() -> bool:
        return project.events() == [{"n": 1}]

    with pytest.raises(KeyboardInterrupt):
        tick(project.store, "job", project.clock, stop=stop)
    assert [line["type"] for line in project.audit()] == ["run_start", "emit", "run_end", "run_void"]


def test_a_turn_that_ends_before_it_is_ready_has_a_first_line_too(tmp_path: Path) -> None:
    project = Project(tmp_path, "1", budgets={"timeout_ms": 1})
    project.start()
    assert run(project).status == "failed"
    assert [line["type"] for line in project.audit()] == ["run_start", "budget_exceeded", "run_end"]
