"""`cruft agent run`, with everything that its command line can give it, in both languages."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cruft_sched.errors import StorageError
from cruft_sched.ops.run import RunOptions, run
from tests.seam import Seam, failing
from tests.support import PROGRAM, Project, Ran, cruft, schedule

AGENTS = {
    "javascript": ("agent.js", "const n = (state.get('n') ?? 0) + 1; state.set('n', n); close([n, context])"),
    "python": ("agent.py", "n = state.get('n', 0) + 1\nstate.set('n', n)\nclose([n, dict(context)])"),
}
both = pytest.mark.parametrize("language", AGENTS)


def counting(folder: Path, language: str = "javascript", **policy: Any) -> Project:
    """A project whose agent counts its runs in its state."""
    name, source = AGENTS[language]
    return Project(folder, source, name, **policy)


def run_once(project: Project, *arguments: str) -> Ran:
    return cruft("agent", "run", "--policy", str(project.policy), *arguments)


@both
def test_without_a_session_nothing_is_kept(language: str, tmp_path: Path) -> None:
    project = counting(tmp_path, language, state={"n": 5}, context={"a": 1})
    for _ in range(2):
        assert run_once(project).json["result"] == [6, {"a": 1}]
    assert "session_file" not in run_once(project).json


@both
def test_a_session_keeps_the_state_from_run_to_run(language: str, tmp_path: Path) -> None:
    project = counting(tmp_path / "p", language, state={"n": 5})
    session = tmp_path / "new" / "folder" / "session.json"
    for expected in (6, 7, 8):
        ran = run_once(project, "--session-file", str(session))
        assert (ran.code, ran.json["result"][0], ran.json["session_file"]) == (0, expected, str(session))
    kept = json.loads(session.read_text())
    last = [line for line in project.audit() if line["type"] == "run_end"][-1]
    assert (kept["state"], kept["audit"]["run_id"]) == ({"n": 8}, last["run_id"])
    assert session.stat().st_mode & 0o777 == 0o600


def test_the_policys_session_lies_by_the_policy(tmp_path: Path) -> None:
    project = counting(tmp_path / "p", session_file="kept/session.json", run_id="nightly")
    ran = cruft("agent", "run", "--project", str(project.folder), cwd=str(tmp_path))
    assert (ran.json["run_id"], ran.json["session_file"]) == ("nightly", str(project.folder / "kept" / "session.json"))
    assert run_once(project).json["result"][0] == 2
    given = tmp_path / "other.json"
    assert run_once(project, "--session-file", str(given), "--run-id", "by-hand").json["run_id"] == "by-hand"
    assert json.loads(given.read_text())["state"] == {"n": 1}
    starts = [line for line in project.audit() if line["type"] == "run_start"]
    assert [line["run_id"] for line in starts] == ["nightly", "nightly", "by-hand"]
    assert len({line["uid"] for line in starts}) == 3


def test_a_context_and_an_audit_log_of_the_command_line(tmp_path: Path) -> None:
    project = counting(tmp_path / "p", context={"a": 1, "b": 1})
    log = tmp_path / "other.jsonl"
    ran = run_once(project, "--context", '{"b": 2}', "--audit-log", str(log))
    assert (ran.json["result"], ran.json["audit_log"]) == ([1, {"a": 1, "b": 2}], str(log))
    assert project.audit() == []
    assert [json.loads(line)["type"] for line in log.read_text().splitlines()] == ["run_start", "state_set", "run_end"]


def test_a_failed_run_leaves_the_session_as_it_was(tmp_path: Path) -> None:
    project = Project(tmp_path, "state.set('n', 1); if (context.fail) throw new Error('no')")
    session = tmp_path / "session.json"
    assert run_once(project, "--session-file", str(session), "--context", '{"fail": true}').code == 70
    assert not session.exists()
    assert run_once(project, "--session-file", str(session)).code == 0
    before = session.read_bytes()
    assert run_once(project, "--session-file", str(session), "--context", '{"fail": 1}').code == 70
    assert session.read_bytes() == before


AUDIT = b'"audit":{"run_id":"r","lines":1,"head":"h"}'
NOT_A_SESSION = {
    "torn": b'{"type":"cruft_agent_session","schema_ver',
    "empty": b"",
    "somebody's": b"my notes\n",
    "a list": b"[]",
    "of another version": b'{"type":"cruft_agent_session","schema_version":2,"state":{},"audit":{}}',
    "with more": b'{"type":"cruft_agent_session","schema_version":1,"state":{},"more":1}',
    "with a key twice": b'{"type":"cruft_agent_session","schema_version":1,"state":{"n":1,"n":2},' + AUDIT + b"}",
    "with a number that nobody reads": b'{"type":"cruft_agent_session","state":{"n":1e999},' + AUDIT + b"}",
    "deep": b'{"type":"cruft_agent_session","schema_version":1,"state":{"a":' + b"[" * 5000 + b"]" * 5000 + b"}}",
    "not UTF-8": b'{"type":"\xff"}',
}


@pytest.mark.parametrize("name", NOT_A_SESSION)
def test_a_file_that_is_no_session_is_left_alone(name: str, tmp_path: Path) -> None:
    project = counting(tmp_path / "p")
    session = tmp_path / "session.json"
    session.write_bytes(NOT_A_SESSION[name])
    ran = run_once(project, "--session-file", str(session))
    assert (ran.code, ran.out, ran.err.count("\n")) == (65, "", 1)
    assert "is no session" in ran.err
    assert session.read_bytes() == NOT_A_SESSION[name]
    assert project.audit() == []


def test_a_link_a_folder_or_the_audit_log_is_no_session(tmp_path: Path) -> None:
    project = counting(tmp_path / "p")
    link, folder, file = tmp_path / "link", tmp_path / "folder", tmp_path / "file"
    link.symlink_to(tmp_path / "target")
    folder.mkdir()
    file.write_text("")
    for path in (link, folder, file / "below", project.folder / "audit.jsonl"):
        ran = run_once(project, "--session-file", str(path))
        assert (ran.code, ran.out, ran.err.count("\n")) == (65, "", 1)
    assert not (tmp_path / "target").exists()
    assert project.audit() == []


def test_a_session_that_is_larger_than_the_budget_is_refused(tmp_path: Path) -> None:
    project = Project(tmp_path, "state.set('a', 'x'.repeat(1000))")
    session = tmp_path / "session.json"
    assert run_once(project, "--session-file", str(session)).code == 0
    project.write_policy(agent="agent.js", budgets={"max_state_bytes": 500})
    ran = run_once(project, "--session-file", str(session))
    assert ran.code == 65
    assert "max_state_bytes is 500" in ran.err


BAD = {
    "a context that is no object": (["--context", "[1]"], 65),
    "a context that is no JSON": (["--context", "{a: 1}"], 65),
    "a context with NaN": (["--context", '{"a": NaN}'], 65),
    "a context with a key twice": (["--context", '{"a": 1, "a": 2}'], 65),
    "the engine's own key": (["--context", '{"scheduler_resume": 1}'], 65),
    "a deep context": (["--context", '{"a": ' + "[" * 500 + "]" * 500 + "}"], 65),
    "a run id with a slash": (["--run-id", "../x"], 64),
    "an empty run id": (["--run-id", " "], 64),
    "a folder as log": (["--audit-log", "/"], 65),
    "the policy as log": (["--audit-log", "{policy}"], 65),
    "somebody's file as log": (["--audit-log", "{agent}"], 65),
    "an empty context": (["--context", ""], 65),
    "a context with a number that nobody reads": (["--context", '{"a": 1e999}'], 65),
    "a log that is not UTF-8": (["--audit-log", "\udcff"], 65),
    "a session that is not UTF-8": (["--session-file", "\udcff"], 65),
    "a log among the kernel's files": (["--audit-log", "/proc/self/x"], 65),
    "a session among the kernel's files": (["--session-file", "/proc/x"], 65),
    "a renamed log as session": (["--session-file", "{folder}/audit.jsonl.7"], 65),
    "the log as the session's lock": (["--session-file", "{folder}/q", "--audit-log", "{folder}/.q.lock"], 65),
    "the agent as session": (["--session-file", "{agent}"], 65),
    "a project, too": (["--project", "."], 64),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_sentence_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    project = counting(tmp_path)
    arguments, code = BAD[name]
    filled = [
        part.replace("{policy}", str(project.policy))
        .replace("{agent}", str(project.agent))
        .replace("{folder}", str(tmp_path))
        for part in arguments
    ]
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    ran = run_once(project, *filled)
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_policys_run_id_is_checked(tmp_path: Path) -> None:
    ran = run_once(counting(tmp_path, run_id="a/b"))
    assert ran.code == 65
    assert "$.run_id: Expected `str` matching" in ran.err
    assert run_once(counting(tmp_path), "--run-id", "").code == 64


def test_two_runs_at_once_share_no_session(tmp_path: Path) -> None:
    project = Project(tmp_path, "emit({}); for (;;);", budgets={"timeout_ms": 60_000})
    session = tmp_path / "session.json"
    command = [PROGRAM, "agent", "run", "--policy", str(project.policy), "--session-file", str(session)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        while not project.events():
            pass
        second = run_once(project, "--session-file", str(session))
        first.kill()
    assert (second.code, second.out) == (75, "")
    assert "another run is using session" in second.err
    assert not session.exists()


def test_a_disk_that_fails_at_any_step_leaves_a_session_of_before_or_after(tmp_path: Path) -> None:
    project = counting(tmp_path)
    options = RunOptions(session_file=str(tmp_path / "session.json"))
    assert run(str(project.policy), project.clock, options).result is not None
    with Seam() as seam:
        run(str(project.policy), project.clock, options)
    for number in range(len(seam.seen)):
        before = json.loads((tmp_path / "session.json").read_text())["state"]["n"]
        with Seam(failing(number, 28)):
            try:
                run(str(project.policy), project.clock, options)
                failed = False
            except StorageError:
                failed = True
        after = json.loads((tmp_path / "session.json").read_text())["state"]["n"]
        last_step = number == len(seam.seen) - 1  # the fsync of the folder: the new one stands already
        assert after == before + (not failed or last_step), seam.seen[number]
        assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []
    assert [line["type"] for line in project.audit()].count("run_void") >= 3


@pytest.mark.parametrize("option", ["--audit-log", "--session-file"])
@pytest.mark.parametrize("name", ["key", "jobs/job/manifest.json", "objects/x", "jobs/new/lock"])
def test_nothing_is_written_into_a_store(option: str, name: str, tmp_path: Path) -> None:
    project = counting(tmp_path)
    project.start()
    before = sorted(Path(project.root).rglob("*"))
    ran = run_once(project, option, f"{project.root}/{name}")
    assert (ran.code, ran.out) == (65, "")
    assert f"lies in the store {project.root}" in ran.err
    assert sorted(Path(project.root).rglob("*")) == before
    assert schedule("status", "job", "--store", project.root).code == 0


def test_an_agent_that_waits_is_sent_to_the_scheduler(tmp_path: Path) -> None:
    for name, source in (("agent.js", "scheduler.sleep(1)"), ("agent.py", "scheduler.sleep(1)")):
        ran = run_once(Project(tmp_path / name, source, name))
        assert ran.code == 70
        assert "`cruft agent schedule start`" in ran.err
