"""`cruft agent policy`, what a policy's paths must be, and what of them a job is bound to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support import Project, Ran, cruft, schedule


def validate(project: Project) -> Ran:
    return cruft("agent", "policy", "validate", str(project.policy))


def program(folder: Path, name: str = "tool") -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


FULL: dict[str, Any] = {
    "tools": ["echo", "readFile", "writeArtifact", "process", "github.file.read", "model.call"],
    "approval_required_tools": ["process"],
    "approved_tools": ["echo"],
    "approval_log": "approvals.jsonl",
    "approval_max_age_ms": 1000,
    "fs_read": ["."],
    "fs_read_include": ["*.py"],
    "fs_read_exclude": ["secret*"],
    "fs_write": ["out"],
    "process_commands": ["tool=tool"],
    "process_cwd": ".",
    "process_env": ["LANG=C"],
    "secrets": ["echo:ECHO_TOKEN"],
    "github_token_env": "GITHUB_TOKEN",
    "model_provider": "x",
    "model_api_key_env": "MODEL_KEY",
    "osv_fixture": "agent.js",
    "named_network_cache_mode": "offline",
    "worker": {"threads": 2},
    "isolation": "process",
}


def test_a_policy_that_is_right_is_valid_and_explained(tmp_path: Path) -> None:
    project = Project(tmp_path, "close(1)", **FULL)
    program(tmp_path)
    assert (validate(project).code, validate(project).json["valid"]) == (0, True)
    told = cruft("agent", "policy", "explain", str(project.policy)).json["explanation"]
    assert told["may_run"] == ["tool=tool"]
    assert (told["runs_in"], told["runs_with"]) == (["."], ["LANG=C"])
    assert (told["engine_writes"], told["approved_beforehand"]) == (["audit.jsonl", "approvals.jsonl"], ["echo"])
    assert told["may_reach"] == ["github.file.read", "model.call"]
    assert told["may_read"] == ["., only *.py, but not secret*"]
    assert told["may_write"] == ["out"]
    assert told["asks_a_person_for"] == ["process"]
    assert told["cannot"] == []
    assert told["secrets"][0] == "echo reads $ECHO_TOKEN"
    human = cruft("agent", "policy", "explain", str(project.policy), "--output", "human").out
    assert "may reach: github.file.read; model.call" in human
    assert "a Python agent can do what the user can" in human


def test_nothing_granted_is_nothing_allowed(tmp_path: Path) -> None:
    told = cruft("agent", "policy", "explain", str(Project(tmp_path, "1").policy)).json["explanation"]
    assert told["cannot"] == [
        *("call any tool", "read any file", "write any file", "run any program", "reach the network")
    ]


def test_an_explanation_cannot_be_taken_for_another(tmp_path: Path) -> None:
    (tmp_path / "docs, only *.md").mkdir()
    (tmp_path / "way").symlink_to("/usr")
    program(tmp_path)
    project = Project(
        tmp_path,
        "1",
        tools=["readFile", "writeArtifact", "process"],
        approval_required_tools=["process"],
        approved_tools=["process"],
        fs_read=["docs, only *.md", "way/bin"],
        fs_read_include=["*.md, but not **/*.key"],
        fs_write=["out; /etc", "out\n/etc"],
        process_commands=["tool=tool"],
        process_env=["LD_PRELOAD=/evil.so"],
        redact_fields=["pin"],
    )
    told = cruft("agent", "policy", "explain", str(project.policy)).json["explanation"]
    only = ', only "*.md, but not **/*.key"'
    where = os.path.realpath("/usr/bin")
    assert told["may_read"] == [f'"docs, only *.md"{only}', f"way/bin (which is {where}){only}"]
    assert told["may_write"] == ['"out; /etc"', '"out\\n/etc"']
    assert (told["asks_a_person_for"], told["approved_beforehand"]) == ([], ["process"])
    assert told["runs_with"] == ["LD_PRELOAD=/evil.so"]
    assert told["masks"] == ["pin"]


def test_what_only_a_process_confines_is_kept_from_nothing(tmp_path: Path) -> None:
    python = Project(tmp_path / "py", "1", "agent.py", isolation="process")
    javascript = Project(tmp_path / "js", "1", isolation="process")
    told = [
        cruft("agent", "policy", "explain", str(project.policy)).json["explanation"] for project in (python, javascript)
    ]
    assert told[0]["cannot"] == ["call any tool"]
    assert "read any file" in told[1]["cannot"]  # its language has no way to


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "a shell": ({"tools": ["shell"]}, "$.tools[0]: there is no shell"),
    "an unknown tool": ({"tools": ["grand"]}, "$.tools[0]: no such tool"),
    "approval of what is not granted": (
        {"approval_required_tools": ["echo"]},
        "$.approval_required_tools[0]: is not among the tools",
    ),
    "approved twice": ({"tools": ["echo"], "approved_tools": ["echo", "echo"]}, "$.approved_tools[1]: is listed twice"),
    "a secret for nobody": ({"secrets": ["echo:T"]}, "$.secrets[0]: is for a tool that is not among the tools"),
    "a secret of no form": ({"tools": ["echo"], "secrets": ["echo"]}, "$.secrets[0]: Expected `str` matching"),
    "a folder that is not there": ({"fs_read": ["nowhere"]}, "$.fs_read[0]: is no folder"),
    "a file as folder": ({"process_cwd": "agent.js"}, "$.process_cwd: is no folder"),
    "a program that is none": ({"process_commands": ["a=agent.js"]}, "$.process_commands[0]: is no program"),
    "a program that is not there": ({"process_commands": ["a=nope"]}, "$.process_commands[0]: is no program"),
    "a command twice": ({"process_commands": ["a=/bin/sh", "a=/bin/ls"]}, "$.process_commands[1]: is given twice"),
    "a variable twice": ({"process_env": ["A=1", "A=2"]}, "$.process_env[1]: is given twice"),
    "a variable of no form": ({"process_env": ["1A=1"]}, "$.process_env[0]: Expected `str` matching"),
    "a program as log": ({"process_commands": ["a=/bin/sh"], "audit_log": "/bin/sh"}, "$.audit_log: the audit log"),
    "the log as session": ({"session_file": "audit.jsonl"}, "$.session_file: the session"),
    "a run id with a slash": ({"run_id": "a/b"}, "$.run_id: Expected `str` matching"),
    "a fixture that is not there": ({"osv_fixture": "nope.json"}, "$.osv_fixture: fixture"),
    "many retries": ({"named_network_retry_attempts": 4}, "$.named_network_retry_attempts: Expected `int` <= 3"),
    "a mode": ({"named_network_cache_mode": "online"}, "$.named_network_cache_mode: Invalid enum value"),
    "a whole number with a fraction": ({"budgets": {"max_events": 5.0}}, "$.budgets.max_events: Expected `int`"),
    "a context that is no object": ({"context": []}, "$.context: Expected `object`"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_its_path(name: str, tmp_path: Path) -> None:
    fields, said = FAULTS[name]
    project = Project(tmp_path, "close(1)", **fields)
    ran = validate(project)
    assert (ran.code, ran.json["valid"], len(ran.json["faults"])) == (65, False, 1), ran.out
    assert said in ran.err
    assert said.startswith(ran.json["faults"][0]["path"] + ": ")
    assert schedule("start", "--policy", str(project.policy), "--store", project.root).code == 65
    assert not os.path.exists(project.root)


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "tools": ["shell", 5, "echo", "echo"],
        "fs_read": [1, ""],
        "more": 1,
        "budgets": {"max_events": -1},
    }
    ran = validate(Project(tmp_path, "1", **fields))
    paths = [fault["path"] for fault in ran.json["faults"]]
    expected = {"$.tools[0]", "$.tools[1]", "$.tools[3]", "$.fs_read[0]", "$.fs_read[1]", "$.more"}
    assert expected | {"$.budgets.max_events"} == set(paths)
    assert ran.err.count("\n") == len(paths)


HOSTILE = {
    "10 MiB": b'{"profile": "' + b"x" * (10 << 20) + b'"}',
    "deep": b"[" * 10_000 + b"]" * 10_000,
    "NaN": b'{"schema_version": NaN}',
    "not UTF-8": b'{"agent": "\xff"}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "a list": b"[]",
    "nothing": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_policy_gets_one_clear_error(name: str, tmp_path: Path) -> None:
    project = Project(tmp_path, "1")
    project.policy.write_bytes(HOSTILE[name])
    ran = validate(project)
    assert (ran.code, ran.err.count("\n")) == (65, 1)
    if name != "10 MiB":  # which is not even read
        assert len(ran.json["faults"]) == 1
    assert len(ran.err) < 500


FILES = ["agent.js", "agent.py"]


@pytest.mark.parametrize("file", FILES)
def test_an_agent_with_a_byte_order_mark_runs(file: str, tmp_path: Path) -> None:
    project = Project(tmp_path, "\ufeffclose(1)", file)
    assert cruft("agent", "run", "--policy", str(project.policy)).json["result"] == 1


@pytest.mark.parametrize("file", FILES)
def test_a_fault_of_syntax_is_placed(file: str, tmp_path: Path) -> None:
    project = Project(tmp_path, "1\n\ny = ;", file)
    for ran in (cruft("agent", "run", "--policy", str(project.policy)), tick_of(project)):
        assert (ran.code, ran.json["error"]["name"]) == (70, "SyntaxError")
        assert f" ({file}, line 3, column 5)" in ran.err


def tick_of(project: Project) -> Ran:
    project.start()
    return schedule("tick", "job", "--store", project.root)


REFUSED_AGENTS = {
    "is empty": b"",
    "is 52428800 bytes long, and 8388608 are allowed": b" " * (50 << 20),
    "is not UTF-8 (byte 2)": b"# \xff",
}


@pytest.mark.parametrize("said", REFUSED_AGENTS)
@pytest.mark.parametrize("file", FILES)
def test_an_agent_that_cannot_be_one_is_refused(said: str, file: str, tmp_path: Path) -> None:
    project = Project(tmp_path, "", file)
    project.agent.write_bytes(REFUSED_AGENTS[said])
    ran = validate(project)
    assert (ran.code, ran.json["faults"]) == (65, [{"path": "$.agent", "message": f"agent {project.agent} {said}"}])
    store = ["--store", project.root]
    policy = ["--policy", str(project.policy)]
    for refused in (schedule("start", *policy, *store), cruft("agent", "run", *policy)):
        assert (refused.code, refused.out, refused.err.count("\n")) == (65, "", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent-policy.json", file]


def test_a_job_is_bound_to_its_programs_and_fixtures(tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text("{}")
    tool = program(tmp_path)
    project = Project(tmp_path, "scheduler.sleep(0)", process_commands=["tool=tool"], osv_fixture="answers.json")
    project.start()
    assert set(project.store.load("job").bound) == {str(tool), str(tmp_path / "answers.json")}
    assert schedule("tick", "job", "--store", project.root).json["status"] == "awaiting_timer"
    before = project.manifest_file().read_bytes()
    for file in (tool, tmp_path / "answers.json"):
        kept = file.read_bytes()
        file.write_bytes(kept + b"#")
        ran = schedule("tick", "job", "--store", project.root)
        assert (ran.code, ran.out) == (65, "")
        assert f"changed since start: {file}" in ran.err
        assert project.manifest_file().read_bytes() == before
        file.write_bytes(kept)
    tool.unlink()
    assert f"program {tool} cannot be read" in schedule("tick", "job", "--store", project.root).err


def test_a_tool_that_needs_an_approval_is_refused_within_a_turn(tmp_path: Path) -> None:
    project = Project(tmp_path, "await callTool('echo')", tools=["echo"], approval_required_tools=["echo"])
    project.start()
    ran = schedule("tick", "job", "--store", project.root)
    assert ran.code == 70
    assert "needs a person's approval, which a job asks for with scheduler.callTool" in ran.err
