"""Approving, cancelling and sweeping from the command line, and where a token may be seen."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.test_output import HOSTILE, at_terminal
from tests.cli.test_processes import LOOP, begin, begin_turn, child_of, finish
from tests.support import PROGRAM, Project, schedule
from tests.turns.test_child_process import gone

ASK = """
const r = context.scheduler_resume;
if (r) { emit({kind: "answered", by: r.await.settlement?.by ?? null, result: r.result ?? null}); close(r.result); }
else scheduler.waitForInput("approval", {subject: "deploy"}, {schema: {type: "object",
  properties: {approved: {type: "boolean"}}, required: ["approved"]}});
"""
YES = '{"approved": true}'


@pytest.fixture
def asking(tmp_path: Path) -> Project:
    """A job that waits for a person."""
    project = Project(tmp_path / "project", ASK)
    project.start()
    assert schedule("tick", "job", "--store", project.root).json["status"] == "awaiting_input"
    return project


def token_of(project: Project) -> str:
    return str(schedule("token", "job", "--store", project.root).json["token"])


def test_the_command_that_is_shown_works_when_it_is_pasted(asking: Project) -> None:
    seen = at_terminal("agent", "schedule", "status", "job", "--store", asking.root).decode()
    line = next(line for line in seen.splitlines() if line.startswith("answer with: "))
    command = line.removeprefix("answer with: ").strip().replace("cruft", PROGRAM, 1)
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True)
    assert json.loads(done.stdout)["status"] == "completed"
    assert asking.events() == [{"kind": "answered", "by": None, "result": {"approved": True}}]


def test_ctrl_c_in_a_sweep_does_not_wait_for_a_tool(tmp_path: Path) -> None:
    project = Project(tmp_path, 'scheduler.callTool("slow", {delay_ms: 20000}, {timeout_ms: 25000})', tools=["slow"])
    project.start()
    schedule("tick", "job", "--store", project.root)
    process = begin("tick", "--due", "--store", project.root)
    descriptors = Path(f"/proc/{process.pid}/fd")
    while not any(os.path.realpath(fd).endswith("audit.jsonl") for fd in descriptors.iterdir()):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(2)
    out, _ = process.communicate(timeout=10)
    assert (process.returncode, out) == (130, b"")
    job = project.store.load("job")
    assert (job.status, job.awaits[0].settlement) == ("awaiting_tool", None)


def test_show_token_shows_it_after_the_commit(tmp_path: Path) -> None:
    project = Project(tmp_path, ASK)
    project.start()
    ticked = schedule("tick", "job", "--store", project.root, "--show-token").json
    assert ticked["token"] == token_of(project)
    project.start("other")
    seen = at_terminal("agent", "schedule", "tick", "other", "--store", project.root, "--show-token").decode()
    assert schedule("token", "other", "--store", project.root).json["token"] in seen


@pytest.mark.parametrize("which", ["token", "json"])
def test_secrets_and_answers_come_from_standard_input_too(asking: Project, which: str) -> None:
    token = token_of(asking)
    given = {"token": token, "json": YES}
    arguments = [part for name, value in given.items() for part in (f"--{name}", "-" if name == which else value)]
    done = subprocess.run(
        [PROGRAM, "agent", "schedule", "input", "job", "--store", asking.root, "--by", "ann", *arguments],
        input=f"{given[which]}\n".encode(),
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout)["status"] == "completed"
    assert asking.events()[0]["by"] == "ann"
    replay = schedule("replay", "job", "--store", asking.root).json
    assert [entry["by"] for entry in replay["timeline"] if entry["event"] == "answered"] == ["ann"]


def test_a_deferred_answer_is_taken_up_by_the_sweep(asking: Project) -> None:
    store = ["--store", asking.root]
    deferred = schedule("input", "job", *store, "--token", token_of(asking), "--json", YES, "--defer")
    assert (deferred.code, deferred.json["status"]) == (0, "awaiting_input")
    assert asking.events() == []
    lines = [json.loads(line) for line in schedule("tick", "--due", *store).out.splitlines()]
    assert [line["type"] for line in lines] == ["agent_scheduler_tick", "agent_scheduler_sweep"]
    assert (lines[0]["job_id"], lines[0]["status"], lines[1]["moved"]) == ("job", "completed", 1)
    late = schedule("input", "job", *store, "--token", "0" * 32, "--json", YES)
    assert late.code == 75


def test_four_answers_at_once_deliver_one(asking: Project) -> None:
    arguments = ["input", "job", "--store", asking.root, "--token", token_of(asking), "--json", YES]
    ended = [finish(process) for process in [begin(*arguments) for _ in range(4)]]
    assert sorted(ran.code for ran in ended) == [0, 75, 75, 75]
    assert len(asking.events()) == 1
    assert asking.store.load("job").status == "completed"


def test_a_token_is_nowhere_but_where_it_is_asked_for(asking: Project) -> None:
    store = ["--store", asking.root]
    token = token_of(asking)
    said = [
        schedule("status", "job", *store),
        schedule("replay", "job", *store),
        schedule("replay", "job", *store, "--output", "human"),
        schedule("list", *store),
        schedule("list", *store, "--output", "human"),
        schedule("tick", "job", *store),
        schedule("tick", "--due", *store),
        schedule("input", "job", *store, "--token", token + "0", "--json", YES),
        schedule("input", "job", *store, "--token", token, "--json", "{}"),
        schedule("input", "job", *store, "--token", token, "--json", YES),
        schedule("input", "job", *store, "--token", token, "--json", YES),
        schedule("cancel", "job", *store),
    ]
    for ran in said:
        assert token not in ran.out + ran.err
    for folder, _, files in os.walk(asking.folder):
        for name in files:
            assert token.encode() not in Path(folder, name).read_bytes(), name


def test_cancel_a_job_that_runs(tmp_path: Path) -> None:
    project = Project(tmp_path, LOOP)
    project.start()
    process = begin_turn(project)
    child = child_of(process)
    answer = schedule("cancel", "job", "--store", project.root, "--reason", "wrong door")
    assert answer.code == 0
    assert answer.json == {
        "type": "agent_scheduler_cancel",
        "schema_version": 1,
        "job_id": "job",
        "status": "cancelled",
        "already_cancelled": False,
        "previous_status": "running",
    }
    killed = finish(process)
    assert (killed.code, killed.json["status"]) == (70, "cancelled")
    assert "was cancelled, and job/turn-1 was killed" in killed.err
    assert gone(child)
    assert schedule("cancel", "job", "--store", project.root).json["already_cancelled"] is True
    assert schedule("tick", "job", "--store", project.root).code == 75


def test_cancel_a_job_whose_driver_died(tmp_path: Path) -> None:
    project = Project(tmp_path, LOOP)
    project.start()
    process = begin_turn(project)
    process.kill()
    process.communicate()
    assert schedule("cancel", "job", "--store", project.root).json["previous_status"] == "running"
    assert project.audit()[-1]["type"] == "run_void"


@pytest.mark.parametrize("language", ["agent.js", "agent.py"])
def test_a_killed_answer_is_recovered_with_the_answer(tmp_path: Path, language: str) -> None:
    sources = {
        "agent.js": "if (!context.scheduler_resume) scheduler.waitForInput('ok'); emit({}); while (true);",
        "agent.py": "if 'scheduler_resume' not in context: scheduler.wait_for_input('ok')\nemit({})\nwhile True: pass",
    }
    project = Project(tmp_path, sources[language], language)
    project.start()
    schedule("tick", "job", "--store", project.root)
    process = begin("input", "job", "--store", project.root, "--token", token_of(project), "--json", "7")
    while not project.events():
        assert process.poll() is None
        time.sleep(0.01)
    child = child_of(process)
    process.kill()
    process.communicate()
    assert gone(child)
    job = project.store.load("job")
    assert job.status == "running"
    assert job.awaits[0].done is not None
    again = begin_turn(project)
    again.kill()
    again.communicate()
    assert [entry.event for entry in project.store.load("job").timeline].count("answered") == 1


def test_sweep_lines_for_people_and_faults_on_standard_error(tmp_path: Path) -> None:
    project = Project(tmp_path, 'if (context.bad) throw new Error("x"); scheduler.sleep(86400000)')
    project.start("good")
    project.start("bad", context=b'{"bad": true}')
    project.start("broken")
    project.manifest_file("broken").write_bytes(b"")
    first = schedule("tick", "--due", "--store", project.root, "--output", "human")
    assert first.code == 0
    assert first.out.splitlines()[-1].startswith("2 moved, 1 failed, 1 blocked, 0 busy, in ")
    assert sorted(line.split()[4] for line in first.err.splitlines()) == ["job", "the"]
    assert first.err.count("cruft agent schedule tick: ") == 2
    second = schedule("tick", "--due", "--drain", "--for", "50ms", "--workers", "2", "--store", project.root)
    assert (second.code, second.err) == (0, "")
    assert second.json["moved"] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["job", "--due"],
        ["job", "--drain"],
        ["job", "--workers", "2"],
        ["--due", "--for", "5s"],
        ["--due", "--drain", "--for", "soon"],
        ["--due", "--wait"],
        ["--due", "--workers", "0"],
        ["--due", "--max-jobs", "0"],
    ],
)
def test_flags_that_do_not_go_together(asking: Project, arguments: list[str]) -> None:
    ran = schedule("tick", "--store", asking.root, *arguments)
    assert (ran.code, ran.out) == (64, "")


def test_ctrl_c_in_a_sweep_gives_the_turns_back(tmp_path: Path) -> None:
    project = Project(tmp_path, LOOP)
    for name in ("a", "b", "c"):
        project.start(name)
    process = begin("tick", "--due", "--workers", "2", "--store", project.root)
    while len(project.events()) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(2)
    ran = finish(process)
    assert ran.code == 130
    jobs = [project.store.load(name) for name in ("a", "b", "c")]
    assert {(job.status, job.interruptions) for job in jobs} == {("created", 0)}


def test_what_an_agent_asks_controls_no_terminal(tmp_path: Path) -> None:
    text = json.dumps(HOSTILE)
    source = f"scheduler.waitForInput({text}, {{t: {text}}}, {{schema: {{enum: [{text}]}}}})"
    project = Project(tmp_path, source)
    project.start()
    for arguments in (["tick", "job"], ["status", "job"], ["token", "job"], ["replay", "job"], ["list"]):
        seen = at_terminal("agent", "schedule", *arguments, "--store", project.root).decode()
        for mark in ("\x1b[31m\\", "\u202e", "\u2066", "\x9b", "\x07", "\u200b", "\U000e0041"):
            assert mark not in seen
    token = token_of(project)
    wrong = schedule("input", "job", "--store", project.root, "--token", token, "--json", '"\\u202e"')
    assert wrong.code == 65
    assert wrong.err.removesuffix("\n").isprintable()
