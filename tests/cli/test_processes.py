"""Many processes at once, killed ones, and bare environments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import NAP, PROGRAM, Project, Ran, schedule
from tests.turns.test_child_process import gone

LOOP = 'emit({kind: "looping"}); while (true);'


def begin(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([PROGRAM, "agent", "schedule", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> Ran:
    out, err = process.communicate()
    return Ran(process.returncode, out.decode(), err.decode())


def begin_turn(project: Project, job_id: str = "job") -> subprocess.Popen[bytes]:
    """A tick in the middle of a turn that never ends by itself."""
    already = len(project.events())
    process = begin("tick", job_id, "--store", project.root)
    while len(project.events()) == already:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    return process


def child_of(process: subprocess.Popen[bytes]) -> int:
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
        (child,) = map(int, children.read().split())
    return child


def test_six_ticks_at_once_run_one_turn(tmp_path: Path) -> None:
    project = Project(tmp_path, 'emit({kind: "once"}); scheduler.sleep(86400000)')
    project.start()
    ticks = [finish(process) for process in [begin("tick", "job", "--store", project.root) for _ in range(6)]]
    assert project.events() == [{"kind": "once"}]
    assert project.store.load("job").turn_cursor == 1
    assert sum("child_exit_code" in ran.out for ran in ticks) == 1
    for ran in ticks:
        assert ran.code in (0, 75), ran.err  # the others were refused, or came when it slept already


def test_a_long_turn_delays_nobody_else(project: Project) -> None:
    project.agent.write_text(f"if (context.loop) {{ {LOOP} }} {NAP}")
    project.start(context=b'{"loop": true}')
    project.start("other")
    process = begin_turn(project)
    try:
        assert schedule("tick", "other", "--store", project.root).json["status"] == "awaiting_timer"
        listed = schedule("list", "--store", project.root).json["jobs"]
        assert {job["job_id"]: job["status"] for job in listed} == {"job": "running", "other": "awaiting_timer"}
        assert schedule("status", "job", "--store", project.root).json["active_turn_id"] == "job/turn-1"
        busy = schedule("tick", "job", "--store", project.root)
        assert (busy.code, busy.out) == (75, "")
        assert "job job is being advanced" in busy.err
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def test_first_starts_at_once(project: Project) -> None:
    arguments = ["start", "--policy", str(project.policy), "--store", project.root]
    begun = [begin(*arguments, "--job-id", job_id) for job_id in ("a", "b", "same", "same", "same")]
    codes = [finish(process).code for process in begun]
    assert codes[:2] == [0, 0]
    assert sorted(codes[2:]) == [0, 73, 73]
    assert [job["job_id"] for job in schedule("list", "--store", project.root).json["jobs"]] == ["a", "b", "same"]


def test_a_killed_driver_takes_its_turn_along_and_the_next_tick_recovers(project: Project) -> None:
    project.agent.write_text(f"if (!state.get('x')) {{ {LOOP} }}")
    project.start()
    for interruption in range(1, 3):
        process = begin_turn(project)
        child = child_of(process)
        process.kill()
        process.communicate()
        assert gone(child)
        assert project.store.load("job").status == "running"
        assert project.store.load("job").turn_cursor == interruption
    process = begin_turn(project)
    process.kill()
    process.communicate()
    failed = schedule("tick", "job", "--store", project.root)
    assert (failed.code, failed.json["status"]) == (70, "failed")
    assert "interrupted 3 times in a row" in failed.err
    voids = [line["run_id"] for line in project.audit() if line["type"] == "run_void"]
    assert voids == ["job/turn-1", "job/turn-2", "job/turn-3"]


@pytest.mark.parametrize(
    ("number", "code", "reason"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "terminated")]
)
def test_an_ended_driver_gives_the_turn_back(project: Project, number: int, code: int, reason: str) -> None:
    project.agent.write_text(LOOP)
    project.start()
    process = begin_turn(project)
    child = child_of(process)
    process.send_signal(number)
    ran = finish(process)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.count("\n") == 1
    assert gone(child)
    job = project.store.load("job")
    assert (job.status, job.interruptions, job.timeline[-1].reason) == ("created", 0, reason)
    assert project.audit()[-1]["type"] == "run_void"


def test_whoever_starts_us_may_ignore_the_end_of_children(project: Project) -> None:
    project.start()
    code = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    command = [PROGRAM, "agent", "schedule", "tick", "job", "--store", project.root]
    ran = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    embedded = (
        "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "from cruft_sched.ops.doctor import doctor\n"
        "print(doctor().tiers[0].missing)"
    )
    said = subprocess.run([sys.executable, "-c", embedded], capture_output=True, check=True).stdout
    assert said == b"this process ignores SIGCHLD\n"


def test_under_a_bare_environment_from_the_root_with_an_open_pipe(tmp_path: Path) -> None:
    project = Project(tmp_path / "żółw", 'emit({kind: "żółw 🐢"}); close("ü")')
    project.start()
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            ["/usr/bin/env", "-i", PROGRAM, "agent", "schedule", "tick", "job", "--store", project.root],
            capture_output=True,
            check=False,
            stdin=reading,
            cwd="/",
            timeout=60,
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
    assert project.events() == [{"kind": "żółw 🐢"}]
    assert '{"kind":"żółw 🐢"}'.encode() in (project.folder / "audit.jsonl").read_bytes()
    status = subprocess.run(
        ["/usr/bin/env", "-i", PROGRAM, "agent", "schedule", "status", "job", "--store", project.root],
        capture_output=True,
        check=True,
    )
    assert '"result": "ü"'.encode() in status.stdout
