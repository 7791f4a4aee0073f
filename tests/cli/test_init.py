"""`cruft agent init`: every template, in both languages, runs at once; what stands already is left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cruft_sched.errors import StorageError
from cruft_sched.ops.init_project import TEMPLATES, init_project
from tests.old_kernel import LANDLOCK
from tests.seam import Seam, failing
from tests.support import PROGRAM, Ran, cruft, schedule

ANSWERS: dict[str, Any] = {"human-approval": {"approved": True, "comment": "go"}, "repo-review": {"accept": False}}
RESULTS: dict[str, Any] = {
    "blank": "hello world",
    "human-approval": {"subject": "deploy 1.4", "approved": True, "why": "go"},
    "ci-triage": {"cause": "test", "by": "rule", "line": "E   assert 1 == 2"},
    "repo-review": {
        "verdict": "rejected",
        "findings": [
            {"file": "app.py", "rule": "secret", "line": 'password = "hunter2"'},
            {"file": "app.py", "rule": "debug", "line": 'print("debug")'},
        ],
    },
}
languages = pytest.mark.parametrize("language", ["js", "python"])


def started(folder: Path, template: str, language: str, *more: str) -> list[str]:
    """Make a project and a job of it; what follows is the job, and its store."""
    made = cruft("agent", "init", str(folder), "--template", template, "--language", language)
    assert (made.code, made.err) == (0, "")
    job = ["job", "--store", str(folder / "store")]
    begun = schedule("start", "--project", str(folder), "--job-id", *job, *more)
    assert (begun.code, begun.err) == (0, "")
    return job


def answered(job: list[str], answer: object) -> Ran:
    token = schedule("token", *job).json["token"]
    return schedule("input", *job, "--token", token, "--json", json.dumps(answer))


@languages
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_project_runs_at_once(template: str, language: str, tmp_path: Path) -> None:
    job = started(tmp_path / "p", template, language)
    ran = schedule("tick", *job)
    if template in ANSWERS:
        assert ran.json["status"] == "awaiting_input"
        ran = answered(job, ANSWERS[template])
    assert (ran.code, ran.json["status"], ran.err) == (0, "completed", "")
    assert schedule("status", *job).json["result"] == RESULTS[template]


@languages
def test_what_no_rule_tells_a_person_does(language: str, tmp_path: Path) -> None:
    job = started(tmp_path, "ci-triage", language, "--context", '{"log": "it went wrong"}')
    assert schedule("tick", *job).json["status"] == "awaiting_input"
    assert answered(job, {"cause": "luck"}).code == 65
    assert answered(job, {"cause": "infrastructure"}).json["status"] == "completed"
    assert schedule("status", *job).json["result"]["by"] == "person"


@languages
def test_a_clean_change_needs_nobody(language: str, tmp_path: Path) -> None:
    job = started(tmp_path, "repo-review", language, "--context", '{"diff": "+++ b/a.py\\n+total = 1\\n"}')
    assert schedule("tick", *job).json["status"] == "completed"
    assert schedule("status", *job).json["result"] == {"verdict": "clean", "findings": []}


def test_the_answer_names_the_files_and_what_comes_next(tmp_path: Path) -> None:
    made = cruft("agent", "init", str(tmp_path), "--language", "python")
    assert made.json == {
        "type": "agent_init",
        "schema_version": 1,
        "project": str(tmp_path),
        "template": "blank",
        "language": "python",
        "files": ["README.md", "agent.py", "agent-policy.json"],
    }
    assert sorted(os.listdir(tmp_path)) == ["README.md", "agent-policy.json", "agent.py"]
    human = cruft("agent", "init", str(tmp_path / "other"), "--output", "human")
    assert f"next: cruft agent schedule start --project {tmp_path}/other" in human.out


@pytest.mark.parametrize("there", ["README.md", "agent.js", "agent-policy.json"])
def test_what_stands_already_is_left_alone(there: str, tmp_path: Path) -> None:
    (tmp_path / there).write_text("mine")
    made = cruft("agent", "init", str(tmp_path))
    assert (made.code, made.out, made.err.count("\n")) == (73, "", 1)
    assert there in made.err
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {there: "mine"}


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for folder in (file, file / "below"):
        made = cruft("agent", "init", str(folder))
        assert (made.code, made.out, made.err.count("\n")) == (65, "", 1)
    assert file.read_text() == "mine"


@pytest.mark.parametrize("arguments", [["--template", "grand"], ["--language", "perl"]])
def test_an_unknown_choice_is_refused(arguments: list[str], tmp_path: Path) -> None:
    made = cruft("agent", "init", str(tmp_path / "p"), *arguments)
    assert (made.code, made.out) == (64, "")
    assert not (tmp_path / "p").exists()


def test_a_full_disk_leaves_no_file(tmp_path: Path) -> None:
    with Seam() as seam:
        init_project(str(tmp_path / "count"), "human-approval", "js")
    for number, operation in enumerate(seam.seen):
        if operation == "unlink":
            continue  # of a temporary, which is harmless when it stays
        folder = tmp_path / str(number)
        with Seam(failing(number, 28)), pytest.raises(StorageError):
            init_project(str(folder), "human-approval", "js")
        assert [path for path in folder.rglob("*") if path.is_file()] == [], operation
        assert init_project(str(folder), "human-approval", "js").files[-1] == "agent-policy.json"


def test_without_a_compartment_the_policy_asks_for_less(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.old_kernel", ",".join(LANDLOCK), PROGRAM, "agent", "init", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, check=True, cwd=Path(__file__).parents[2])
    assert "Landlock" in json.loads(ran.stdout)["without_compartment"]
    assert json.loads((tmp_path / "agent-policy.json").read_text())["isolation"] == "process"
    assert cruft("agent", "run", "--project", str(tmp_path)).json["status"] == "completed"
