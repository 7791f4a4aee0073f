"""Wrong command lines, broken data, and what people are told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cruft_sched.errors import SystemFailedError
from cruft_sched.ops.tick import tick
from tests.core.test_ids import HOSTILE
from tests.stores.test_file_store import broken_manifests
from tests.support import PROGRAM, Project, cruft, schedule


def assert_one_line(err: str, prefix: str) -> None:
    assert err.startswith(prefix), err
    assert ": " in err
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert ";" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["agent", "nonsense"],
        ["agent", "schedule", "nonsense"],
        ["agent", "schedule", "start"],
        ["agent", "schedule", "start", "--policy", "p", "--project", "d"],
        ["agent", "schedule", "start", "--policy", "p", "--label", "novalue"],
        ["agent", "schedule", "start", "--wrong"],
        ["agent", "schedule", "tick"],
        ["agent", "schedule", "tick", "job"],
        ["agent", "schedule", "tick", "a", "b", "--store", "s"],
        ["agent", "schedule", "list"],
        ["agent", "schedule", "list", "--store", "s", "--output", "yaml"],
        ["agent", "schedule", "status", "job"],
        ["agent", "schedule", "replay", "job"],
        ["agent", "run"],
    ],
)
def test_wrong_command_lines(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CRUFT_STORE", raising=False)
    ran = cruft(*arguments)
    assert (ran.code, ran.out) == (64, "")
    assert_one_line(ran.err, "cruft")
    assert "--help`" in ran.err


@pytest.mark.parametrize("job_id", [job_id for job_id in HOSTILE if "\0" not in job_id])
def test_hostile_ids_at_every_entry(project: Project, job_id: str) -> None:
    project.start()
    for command in ("tick", "status", "replay"):
        ran = schedule(command, "--store", project.root, "--", job_id)
        assert (ran.code, ran.out) == (64, "")
        assert_one_line(ran.err, f"cruft agent schedule {command}")
    ran = schedule("start", "--policy", str(project.policy), "--store", project.root, f"--job-id={job_id}")
    assert (ran.code, ran.out) == (64, "")
    assert sorted(os.listdir(os.path.join(project.root, "jobs"))) == ["job"]


def test_broken_manifests_at_every_command(project: Project) -> None:
    store = project.start("good")
    broken = broken_manifests(store)
    for name, data in broken.items():
        project.start(name)
        project.manifest_file(name).write_bytes(data)
    for name, data in broken.items():
        for command in ("tick", "status", "replay"):
            ran = schedule(command, name, "--store", project.root)
            assert (ran.code, ran.out) == (65, "")
            assert_one_line(ran.err, f"cruft agent schedule {command}")
        assert project.manifest_file(name).read_bytes() == data
    listing = schedule("list", "--store", project.root)
    assert (listing.code, [job["job_id"] for job in listing.json["jobs"]]) == (0, ["good"])
    assert listing.err.startswith(f"cruft agent schedule list: {len(broken)} left out: ")
    assert schedule("tick", "good", "--store", project.root).json["status"] == "awaiting_timer"


def test_a_broken_policy(project: Project) -> None:
    project.policy.write_text('{"agent": 1, "agent": 2, "x": 3}')
    ran = schedule("start", "--policy", str(project.policy), "--store", project.root)
    assert ran.code == 65
    assert_one_line(ran.err, "cruft agent schedule start")
    for fault in ("$.agent: the key is given twice", "$.audit_log: required", "$.x: unknown field"):
        assert fault in ran.err
    assert not Path(project.root).exists()


def test_unknown_jobs_and_stores(project: Project) -> None:
    project.start()
    for command in ("tick", "status", "replay"):
        assert schedule(command, "nobody", "--store", project.root).code == 65
        assert schedule(command, "job", "--store", str(project.folder)).code == 65
    assert schedule("list", "--store", "/nowhere").code == 65


def test_the_job_exists(project: Project) -> None:
    project.start()
    ran = schedule("start", "--policy", str(project.policy), "--store", project.root, "--job-id", "job")
    assert (ran.code, ran.out) == (73, "")
    assert "job already exists: job; " in ran.err


def test_a_changed_agent(project: Project) -> None:
    project.start()
    project.agent.write_text("emit({})")
    ran = schedule("tick", "job", "--store", project.root)
    assert (ran.code, ran.out) == (65, "")
    assert f"agent changed since start: {project.agent}; " in ran.err


def test_a_failed_turn(tmp_path: Path) -> None:
    project = Project(tmp_path, "throw new Error('boo\\n\\u001b[31m\\u202e')")
    project.start()
    ran = schedule("tick", "job", "--store", project.root)
    assert (ran.code, ran.json["status"], ran.json["error"]["kind"]) == (70, "failed", "agent_error")
    assert_one_line(ran.err, "cruft agent schedule tick")
    assert "the agent threw Error: boo\\n\\u{1b}[31m\\u{202e};" in ran.err


def wrapped(number: int, what: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "tests.seam", str(number), what, "agent", "schedule", *arguments]
    return subprocess.run(command, capture_output=True, check=False)


def test_a_really_full_disk(project: Project) -> None:
    """The kernel's own limit on the size of a file stands in for a disk with no room left."""
    project.start()
    before = project.manifest_file().read_bytes()
    shell = f"ulimit -f 0; exec {PROGRAM} agent schedule tick job --store {project.root}"
    done = subprocess.run(["/bin/bash", "-c", f"trap '' XFSZ; {shell}"], capture_output=True, check=False)
    assert done.returncode == 74, done.stderr
    assert b"File too large" in done.stderr
    assert project.manifest_file().read_bytes() == before
    assert schedule("tick", "job", "--store", project.root).code == 0


@pytest.mark.parametrize(
    ("redirection", "code"), [(">/dev/full", 74), (">&-", 74), ("2>&-", 0), ("<&-", 0), ("| head -c 0", 74)]
)
def test_output_that_cannot_be_written(project: Project, redirection: str, code: int) -> None:
    project.start()
    shell = f"set -o pipefail; {PROGRAM} agent schedule tick job --store {project.root} {redirection}"
    done = subprocess.run(["/bin/bash", "-c", shell], capture_output=True, check=False)
    assert done.returncode == code, done
    assert b"Traceback" not in done.stderr
    assert project.store.load("job").status == "awaiting_timer"


@pytest.mark.parametrize("arguments", ["--help", "--version", "agent schedule --help", "demo"])
def test_help_that_cannot_be_written(arguments: str) -> None:
    done = subprocess.run(["/bin/sh", "-c", f"{PROGRAM} {arguments} >/dev/full"], capture_output=True, check=False)
    assert done.returncode == 74, done.stderr
    assert_one_line(done.stderr.decode(), "cruft")
    assert b"bug" not in done.stderr


def test_a_bug_is_one_line_and_a_log(project: Project, tmp_path: Path) -> None:
    project.start()
    code = (
        "import cruft_sched.ops.tick as t; t.tick = lambda *a: 1 / 0\n"
        "import sys; from cruft_sched.cli.app import run; sys.exit(run(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "agent", "schedule", "tick", "job", "--store", project.root]
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    assert done.returncode == 70
    assert done.stderr.count(b"\n") == 1
    (log,) = (tmp_path / "state" / "cruft-sched").iterdir()
    assert str(log).encode() in done.stderr
    assert "ZeroDivisionError" in log.read_text()


def test_a_system_without_processes_left_gives_the_turn_back(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    project.start()
    monkeypatch.setattr(subprocess, "Popen", none_left)
    with pytest.raises(SystemFailedError, match="cannot start a process") as error:
        tick(project.store, "job", project.clock)
    assert error.value.exit_code == 74
    job = project.store.load("job")
    assert (job.status, job.interruptions) == ("created", 0)


@pytest.mark.parametrize("command", [["tick", "job"], ["status", "job"], ["list"]])
def test_a_store_that_cannot_be_read_is_a_sentence_and_no_bug(project: Project, command: list[str]) -> None:
    project.start()
    for number in range(2):
        done = wrapped(number, "EACCES", *command, "--store", project.root)
        assert done.returncode == 74, done.stderr
        assert_one_line(done.stderr.decode(), "cruft agent schedule ")
        assert b"Permission denied" in done.stderr
        assert b"bug" not in done.stderr
