"""`cruft agent replay`: what the log says, whether its chains hold, and what only the store knows."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cruft_sched.stores.audit_log import locked
from tests.support import PROGRAM, Project, cruft, schedule

ROOT = Path(__file__).parents[2]
TWO_TURNS = """
if (context.scheduler_resume) { emit({kind: "\\u001b[2Jevil\\u202e"}); close(1); }
else { emit({kind: "one"}); emit({kind: "two"}); scheduler.sleep(0); }
"""


@pytest.fixture
def log(tmp_path: Path) -> Project:
    """A job of two turns that came to its end."""
    project = Project(tmp_path / "project", TWO_TURNS)
    project.start()
    for _ in range(2):
        assert schedule("tick", "job", "--store", project.root).code == 0
    return project


def path_of(project: Project) -> Path:
    return project.folder / "audit.jsonl"


def replay(project: Project, *more: str) -> tuple[int, Any, str]:
    ran = cruft("agent", "replay", str(path_of(project)), *more)
    return ran.code, ran.json, ran.err


def rewrite(project: Project, lines: list[str]) -> None:
    path_of(project).write_text("".join(line + "\n" for line in lines))


def lines_of(project: Project) -> list[str]:
    return path_of(project).read_text().splitlines()


def test_a_whole_log(log: Project) -> None:
    code, answer, err = replay(log, "--store", log.root)
    uid = log.store.load("job").uid
    assert (code, err) == (0, "")
    assert (answer["type"], answer["schema_version"], answer["ok"]) == ("agent_replay", 1, True)
    runs = answer["runs"]
    assert [(run["run_id"], run["uid"], run["status"], run["lines"], run["ok"]) for run in runs] == [
        ("job/turn-1", uid, "suspended", 5, True),
        ("job/turn-2", uid, "ok", 3, True),
    ]
    head = log.store.load("job").audit
    assert head is not None
    assert runs[1]["head"] == head.head
    assert answer["jobs"] == [
        {"job_id": "job", "run_id": "job/turn-2", "lines": 3, "head": head.head, "ok": True},
    ]
    _, answer, _ = replay(log, "--run-id", "job/turn-2")
    (run,) = answer["runs"]
    assert [entry["type"] for entry in run["entries"]] == ["run_start", "emit", "run_end"]


def test_people_read_a_line_for_each_line(log: Project) -> None:
    ran = cruft("agent", "replay", str(path_of(log)), "--output", "human")
    assert ran.code == 0
    shown = ran.out.splitlines()
    assert shown[0].startswith("run job/turn-1 (uid ")
    assert sum(" emit " in line for line in shown) == 3
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out
    assert shown[-1] == "8 lines, 2 runs, 2 of them whole or void"


@pytest.mark.parametrize("output", ["json", "human"])
def test_an_edited_line_is_named_and_exits_65(log: Project, output: str) -> None:
    lines = lines_of(log)
    lines[2] = lines[2].replace('"two"', '"2"')
    rewrite(log, lines)
    ran = cruft("agent", "replay", str(path_of(log)), "--output", output)
    assert ran.code == 65
    assert f"{path_of(log)}, line 3: it was edited" in ran.err
    assert ran.err.count("\n") == 1
    if output == "json":
        assert ran.json["first_broken"] == {"file": str(path_of(log)), "line": 3, "reason": "edited"}
        assert [run["ok"] for run in ran.json["runs"]] == [False, True]


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_cut_last_lines_are_seen_with_the_store_alone(log: Project, cut: int) -> None:
    rewrite(log, lines_of(log)[:-cut])
    assert replay(log)[0] == 0
    code, answer, err = replay(log, "--store", log.root)
    (job,) = answer["jobs"]
    assert (code, answer["ok"], job["reason"]) == (65, False, "absent" if cut == 3 else "cut")
    assert "job job: run job/turn-2 is not in the log" in err


def test_a_void_that_was_forged_is_seen_with_the_store(log: Project) -> None:
    uid = log.store.load("job").uid
    lines = lines_of(log)
    lines[2] = lines[2].replace('"two"', '"2"')
    rewrite(log, [*lines, json.dumps({"type": "run_void", "run_id": "job/turn-1", "uid": uid, "at_ms": 1})])
    assert replay(log)[0] == 0
    code, answer, err = replay(log, "--store", log.root)
    (job,) = answer["jobs"]
    assert (code, answer["ok"], job["reason"], job["first_broken"]["line"]) == (65, False, "void", 5)
    assert "is of a run that is declared void, and the store has committed it" in err


def test_a_log_that_is_being_written_is_read_when_the_line_is_whole(log: Project) -> None:
    path = path_of(log)
    line = b'{"type":"run_start","run_id":"r","seq":0,"prev":null,"at_ms":1}\n'
    with path.open("ab", buffering=0) as file, locked(file.fileno()):
        file.write(line[:20])
        reading = subprocess.Popen([PROGRAM, "agent", "replay", str(path)], stdout=subprocess.PIPE)
        with pytest.raises(subprocess.TimeoutExpired):
            reading.wait(timeout=0.5)
        file.write(line[20:])
    answer = json.loads(reading.communicate()[0])
    assert (reading.returncode, answer["lines"], answer["runs"][-1]["run_id"]) == (0, 9, "r")


def test_a_job_of_another_log_is_passed_over(log: Project, tmp_path: Path) -> None:
    other = Project(tmp_path / "other", TWO_TURNS)
    other.root = log.root
    other.start("other")
    assert schedule("tick", "other", "--store", log.root).code == 0
    code, answer, _ = replay(log, "--store", log.root)
    assert (code, [job["job_id"] for job in answer["jobs"]]) == (0, ["job"])


def test_renamed_files_are_read_too(log: Project) -> None:
    lines = lines_of(log)
    path_of(log).rename(f"{path_of(log)}.1")
    rewrite(log, [lines[5], lines[6].replace("evil", "good"), lines[7]])
    rewritten = Path(f"{path_of(log)}.1")
    rewritten.write_text("".join(line + "\n" for line in lines[:5]))
    code, answer, err = replay(log)
    assert code == 65
    assert answer["first_broken"] == {"file": str(path_of(log)), "line": 2, "reason": "edited"}
    assert answer["files"] == [str(rewritten), str(path_of(log))]
    assert err.startswith("cruft agent replay: ")


@pytest.mark.parametrize("content", [b"hello\n", b"{}\n" * 3000, b"\0" * 100, b'{"type":"run_start"}\n'])
def test_what_is_no_audit_log_is_said_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    ran = cruft("agent", "replay", str(tmp_path / "file"))
    assert (ran.code, ran.out) == (65, "")
    assert "is no audit log" in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("name", ["absent", "absent/deeper", ""])
def test_what_is_not_there_is_said_in_a_sentence(tmp_path: Path, name: str) -> None:
    ran = cruft("agent", "replay", str(tmp_path / name))
    assert (ran.code, ran.out, ran.err.count("\n")) == (65, "", 1)


def test_an_unknown_run_is_said(log: Project) -> None:
    ran = cruft("agent", "replay", str(path_of(log)), "--run-id", "job/turn-9")
    assert (ran.code, ran.out) == (65, "")
    assert "has no run 'job/turn-9'" in ran.err


def test_an_empty_log_has_no_runs(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").touch()
    ran = cruft("agent", "replay", str(tmp_path / "audit.jsonl"))
    assert (ran.code, ran.json["runs"]) == (0, [])


def test_schedule_replay_is_still_itself(log: Project) -> None:
    assert schedule("replay", "job", "--store", log.root).json["type"] == "agent_scheduler_replay"


KILLED_TICK = """
import os, signal, sys
from cruft_sched.clock import SystemClock
from cruft_sched.ops.tick import tick
from cruft_sched.stores.file import FileStore
from tests.seam import Seam, before

seen, after = [], []

def fault(_number, name):
    if after or seen[-2:] + [name] == ["lock", "write", "fsync"]:  # the log's: a manifest is opened before its write
        if len(after) == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        after.append(name)
    seen.append(name)

with Seam(before(fault)):
    tick(FileStore(sys.argv[1]), "job", SystemClock())
print(*after)
"""


def test_a_kill_between_the_log_and_the_commit_leaves_a_void_run(tmp_path: Path) -> None:
    """Kill a tick at each operation from the log's fsync up to the rename that commits the turn."""
    operations = ("fsync", "open_file", "write", "fsync", "rename")
    for number in range(len(operations) + 1):
        project = Project(tmp_path / str(number), TWO_TURNS)
        project.start()
        command = [sys.executable, "-c", KILLED_TICK, project.root, str(number)]
        done = subprocess.run(command, check=False, cwd=ROOT)
        assert done.returncode == -signal.SIGKILL
        assert json.loads(lines_of(project)[-1])["type"] == "run_end"
        committed = number == len(operations)
        for _ in range(1 if committed else 2):
            assert schedule("tick", "job", "--store", project.root).code == 0
        code, answer, _ = replay(project, "--store", project.root)
        assert code == 0
        runs = [(run["status"], run["void"]) for run in answer["runs"]]
        assert runs == [("void", True)] * (not committed) + [("suspended", False), ("ok", False)]
