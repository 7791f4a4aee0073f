"""Ticks in one process, with a clock that the test sets: order, recovery, refusals, and what each leaves on disk."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from cruft_sched.core import awaits, lifecycle
from cruft_sched.core.awaits import TimerAwait
from cruft_sched.core.lifecycle import Settled, TurnStarted, advance
from cruft_sched.core.manifest import STATUSES, Status
from cruft_sched.core.outcomes import AgentError
from cruft_sched.errors import (
    BusyError,
    ChangedError,
    CruftError,
    DataError,
    StorageError,
    UnknownJobError,
    WrongStatusError,
)
from cruft_sched.ops.reports import Moved, NotReady
from cruft_sched.ops.tick import tick
from tests.seam import Seam, failing
from tests.support import NOW, Project, in_status


def ticked(project: Project, job_id: str = "job") -> Moved:
    report = tick(project.store, job_id, project.clock)
    assert isinstance(report, Moved)
    return report


def test_a_nap(project: Project) -> None:
    project.start()
    first = ticked(project)
    assert (first.status, first.turn_id, first.deadline_ms) == ("awaiting_timer", "job/turn-1", NOW + 25)
    before = project.manifest_file().read_bytes()
    project.clock.now += 24
    early = tick(project.store, "job", project.clock)
    assert early == NotReady(job_id="job", status="awaiting_timer", deadline_ms=NOW + 25, now_ms=NOW + 24)
    assert project.manifest_file().read_bytes() == before
    project.clock.now += 1
    second = ticked(project)
    assert (second.status, second.turn_cursor) == ("completed", 2)
    asleep, awake = project.events()
    assert asleep == {"kind": "sleeping"}
    assert awake["resume"]["kind"] == "timer"
    assert awake["resume"]["result"] == {"deadline_ms": NOW + 25, "fired_ms": NOW + 25}
    assert awake["resume"]["await"]["payload"] == {"delay_ms": 25, "deadline_ms": NOW + 25}
    job = project.store.load("job")
    assert [entry.event for entry in job.timeline] == [
        "created",
        "turn_started",
        "suspended",
        "fired",
        "turn_started",
        "completed",
    ]
    assert (bytes(job.result), job.awaits, job.revision) == (b'"rested"', (), 5)
    assert (job.budget_ledger.turns, job.budget_ledger.events) == (2, 2)


def test_the_manifest_names_the_last_run_in_the_log(project: Project) -> None:
    project.start()
    ticked(project)
    audit = project.store.load("job").audit
    assert audit is not None
    lines = [line for line in project.audit() if line["run_id"] == audit.run_id]
    assert audit.lines == len(lines)
    assert [line["type"] for line in lines] == ["run_start", "emit", "scheduler_await", "run_end"]
    assert lines[-1]["status"] == "suspended"


def test_a_look_at_a_sleeping_job_writes_nothing_and_takes_no_lock(project: Project) -> None:
    project.start()
    ticked(project)
    with Seam() as seam:
        assert isinstance(tick(project.store, "job", project.clock), NotReady)
    assert set(seam.seen) == {"open_file", "read"}


def test_a_turn_costs_two_commits_and_one_log(project: Project) -> None:
    project.start()
    ticked(project)
    project.clock.now += 25
    with Seam() as seam:
        ticked(project)
    assert (seam.seen.count("rename"), seam.seen.count("fsync"), seam.seen.count("fsync_folder")) == (2, 3, 2)


TICKABLE: set[Status] = {"created", "running", "awaiting_timer", "awaiting_tool", "awaiting_input"}


@pytest.mark.parametrize("status", sorted(set(STATUSES) - TICKABLE))
def test_no_turn_from_here(project: Project, status: Status) -> None:
    project.start()
    project.put(in_status(project.store.load("job"), status))
    before = project.manifest_file().read_bytes()
    with pytest.raises(WrongStatusError, match=f"job job is {status}") as error:
        tick(project.store, "job", project.clock)
    assert error.value.exit_code == 75
    assert project.manifest_file().read_bytes() == before
    assert project.audit() == []


def test_a_job_that_another_tick_holds(project: Project) -> None:
    store = project.start()
    with store.hold("job"), pytest.raises(BusyError, match="is being advanced") as error:
        tick(store, "job", project.clock)
    assert error.value.exit_code == 75


@pytest.mark.parametrize("what", ["policy", "agent"])
@pytest.mark.parametrize("how", ["edited", "deleted"])
def test_changed_sources(project: Project, what: str, how: str) -> None:
    project.start()
    project.start("pinned", pin=True)
    file: Path = getattr(project, what)
    if how == "edited":
        file.write_bytes(file.read_bytes() + b" ")
    else:
        file.unlink()
    before = project.manifest_file().read_bytes()
    with pytest.raises(ChangedError, match=f"^{what} (changed since start: )?.*{file.name}.*restore the file") as error:
        tick(project.store, "job", project.clock)
    assert error.value.exit_code == 65
    assert project.manifest_file().read_bytes() == before
    assert ticked(project, "pinned").status == "awaiting_timer"


def test_a_policy_that_was_restored_goes_on(project: Project) -> None:
    project.start()
    kept = project.agent.read_bytes()
    project.agent.write_text("emit({})")
    with pytest.raises(ChangedError):
        tick(project.store, "job", project.clock)
    project.agent.write_bytes(kept)
    assert ticked(project).status == "awaiting_timer"


def test_a_failed_turn_fails_the_job_and_keeps_its_lines(tmp_path: Path) -> None:
    project = Project(tmp_path, 'state.set("a", 2); emit({kind: "x"}); throw new TypeError("boo")', state={"a": 1})
    project.start()
    report = ticked(project)
    assert report.status == "failed"
    assert isinstance(report.error, AgentError)
    assert (report.error.name, report.error.message, report.child_exit_code) == ("TypeError", "boo", 1)
    job = project.store.load("job")
    assert bytes(job.state["a"]) == b"1"
    assert (job.budget_ledger.events, job.budget_ledger.failures) == (0, 1)
    assert [line["type"] for line in project.audit()] == ["run_start", "emit", "run_end"]


def test_state_is_kept_from_turn_to_turn(tmp_path: Path) -> None:
    source = (
        'state.set("n", (state.get("n") ?? 0) + 1); if (state.get("n") < 3) scheduler.sleep(1); close(state.get("n"))'
    )
    project = Project(tmp_path, source)
    project.start()
    for _ in range(3):
        ticked(project)
        project.clock.now += 1
    assert bytes(project.store.load("job").result) == b"3"


def interrupt(project: Project) -> None:
    """Leave the job as a driver that was killed in a turn would."""
    with project.store.hold("job") as held:
        job = held.load()
        held.commit(advance(job, TurnStarted(), project.clock.now))


def test_an_interrupted_turn_starts_again(project: Project) -> None:
    project.start()
    interrupt(project)
    report = ticked(project)
    assert (report.status, report.turn_id, report.turn_cursor) == ("awaiting_timer", "job/turn-2", 2)
    job = project.store.load("job")
    assert [entry.event for entry in job.timeline][1:4] == ["turn_started", "interrupted", "turn_started"]
    assert job.timeline[2].turn_id == "job/turn-1"
    assert project.audit()[0] == {"type": "run_void", "run_id": "job/turn-1", "uid": job.uid, "at_ms": NOW}


def test_an_interrupted_resume_gets_the_same_resume_context(project: Project) -> None:
    project.start()
    ticked(project)
    project.clock.now += 40
    with project.store.hold("job") as held:
        job = held.load()
        (wait,) = job.awaits
        assert isinstance(wait, TimerAwait)
        job = advance(job, Settled(name="fired", wait=awaits.fired(wait, NOW + 40)), NOW + 40)
        held.commit(advance(job, TurnStarted(), NOW + 40))
    project.clock.now += 1000
    assert ticked(project).status == "completed"
    assert project.events()[-1]["resume"]["result"]["fired_ms"] == NOW + 40


def test_a_turn_that_the_driver_gives_up_is_not_held_against_the_agent(project: Project) -> None:
    project.start()
    with Seam() as seam:
        ticked(project)
    last_commit = len(seam.seen) - 5
    project.start("given-up")
    with Seam(failing(last_commit, 5)), pytest.raises(StorageError):
        tick(project.store, "given-up", project.clock)
    job = project.store.load("given-up")
    assert (job.status, job.interruptions, job.turn_cursor) == ("created", 0, 1)
    assert "cannot write the manifest" in (job.timeline[-1].reason or "")
    assert project.audit()[-1]["type"] == "run_void"
    assert ticked(project, "given-up").status == "awaiting_timer"


@pytest.mark.parametrize(("from_end", "status"), [(1, "awaiting_timer"), (2, "created"), (5, "created")])
def test_what_stands_on_the_disk_is_what_counts(project: Project, from_end: int, status: str) -> None:
    """The last commit of a tick fails: in the fsync of the folder, when it stands already, or before that."""
    project.start("first")
    ticked(project, "first")  # which makes the log
    project.start()
    with Seam() as seam:
        ticked(project)
    project.start("other")
    with Seam(failing(len(seam.seen) - from_end, 5)), pytest.raises(StorageError):
        tick(project.store, "other", project.clock)
    job = project.store.load("other")
    assert (job.status, job.interruptions) == (status, 0)
    voids = [line for line in project.audit() if line["type"] == "run_void"]
    assert len(voids) == (status == "created")


def test_a_first_commit_that_stands_after_all_is_taken_back(project: Project) -> None:
    project.start("first")
    ticked(project, "first")
    project.start()
    with Seam() as seam:
        ticked(project)
    first = seam.seen.index("fsync_folder", seam.seen.index("rename"))
    project.start("other")
    with Seam(failing(first, 5)), pytest.raises(StorageError):
        tick(project.store, "other", project.clock)
    job = project.store.load("other")
    assert (job.status, job.interruptions, job.turn_cursor) == ("created", 0, 1)
    assert len(project.events()) == 2


def test_the_third_interruption_fails_the_job(project: Project) -> None:
    project.start()
    job = project.store.load("job")
    for _ in range(2):
        job = lifecycle.recover(advance(job, TurnStarted(), NOW), NOW)
    project.put(advance(job, TurnStarted(), NOW))
    report = ticked(project)
    assert (report.status, report.turn_cursor) == ("failed", 3)
    assert str(report.error) == "the turn was interrupted 3 times in a row"
    assert project.events() == []


def test_a_log_that_cannot_be_written_starts_no_turn(project: Project) -> None:
    project.start()
    (project.folder / "audit.jsonl").write_text("somebody's notes\n")
    before = project.manifest_file().read_bytes()
    with pytest.raises(DataError, match="no audit log"):
        tick(project.store, "job", project.clock)
    assert project.manifest_file().read_bytes() == before
    assert (project.folder / "audit.jsonl").read_text() == "somebody's notes\n"


def test_sleep_until_the_past_is_ready_at_once(tmp_path: Path) -> None:
    project = Project(tmp_path, "if (!context.scheduler_resume) scheduler.sleepUntil(0)")
    project.start()
    first = ticked(project)
    assert (first.status, first.deadline_ms) == ("awaiting_timer", 0)
    assert ticked(project).status == "completed"


def test_a_clock_set_back_keeps_the_deadline(project: Project) -> None:
    project.start()
    ticked(project)
    project.clock.now -= 3_600_000
    early = tick(project.store, "job", project.clock)
    assert isinstance(early, NotReady)
    assert early.deadline_ms == NOW + 25
    project.clock.now = NOW + 25
    assert ticked(project).status == "completed"


def test_a_job_that_was_deleted_and_started_again_is_not_written_by_the_old_turn(tmp_path: Path) -> None:
    project = Project(tmp_path, "emit({}); const end = Date.now() + 300; while (Date.now() < end); close('old')")
    project.start()
    failures: list[CruftError] = []

    def ticking() -> None:
        with pytest.raises(UnknownJobError) as error:
            tick(project.store, "job", project.clock)
        failures.append(error.value)

    thread = threading.Thread(target=ticking)
    thread.start()
    while project.store.load("job").status != "running":
        pass
    shutil.rmtree(project.store.folder("job"))
    project.start()
    uid = project.store.load("job").uid
    thread.join()
    assert len(failures) == 1
    job = project.store.load("job")
    assert (job.uid, job.status, job.turn_cursor) == (uid, "created", 0)
