"""The sweep: which jobs it takes, in which order, and what it says how often."""

from __future__ import annotations

import shutil
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cruft_sched.core.lifecycle import TurnStarted, advance
from cruft_sched.errors import CruftError, InternalError, SealError
from cruft_sched.ops import sweep as sweep_module
from cruft_sched.ops.cancel import cancel
from cruft_sched.ops.reports import Moved, OverBudget, Report
from cruft_sched.ops.show_token import show_token
from cruft_sched.ops.submit_input import submit_input
from cruft_sched.ops.sweep import Sweep, SweepOptions, SweepReport
from cruft_sched.ops.tick import tick
from cruft_sched.stores.file import FileStore
from tests.support import Project

AGENT = """
const r = context.scheduler_resume, kind = context.kind;
emit({job: context.name, resumed: r ? r.kind : null});
if (r || kind === "done") close(1);
else if (kind === "timer") scheduler.sleep(context.ms);
else if (kind === "tool") scheduler.callTool("echo", 1);
else if (kind === "refused") scheduler.callTool("fail", 1);
else if (kind === "input") scheduler.waitForInput("ok", 1, context.ms ? {timeout_ms: context.ms} : {});
else throw new Error("no " + kind);
"""


class Swept:
    """What a sweep said."""

    def __init__(self, project: Project, **options: object) -> None:
        self.reports: list[Report] = []
        self.faults: list[tuple[str, CruftError]] = []
        sweep = Sweep(
            project.store,
            project.clock,
            SweepOptions(**options),  # type: ignore[arg-type]  # the options of one test, by name
            self.reports.append,
            lambda job_id, fault: self.faults.append((job_id, fault)),
        )
        self.summary: SweepReport = sweep.run()

    @property
    def moved(self) -> dict[str, str]:
        return {report.job_id: report.status for report in self.reports}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, AGENT, tools=["echo"])


def begin(project: Project, job_id: str, kind: str, ms: int = 0) -> None:
    project.start(job_id, context=f'{{"name": "{job_id}", "kind": "{kind}", "ms": {ms}}}'.encode())


def test_every_job_that_can_move_moves_once(project: Project) -> None:
    for name, kind, ms in (("timer", "timer", 100), ("late", "timer", 5000), ("tool", "tool", 0)):
        begin(project, name, kind, ms)
        tick(project.store, name, project.clock)
    begin(project, "asks", "input")
    begin(project, "answered", "input")
    begin(project, "times-out", "input", 100)
    for name in ("asks", "answered", "times-out"):
        tick(project.store, name, project.clock)
    token = show_token(project.store, "answered").token
    submit_input(project.store, "answered", token, b"1", project.clock, defer=True)
    begin(project, "new", "timer", 5000)
    begin(project, "over", "done")
    tick(project.store, "over", project.clock)
    begin(project, "interrupted", "done")
    with project.store.hold("interrupted") as held:
        held.commit(advance(held.load(), TurnStarted(), project.clock.now))
    project.clock.now += 100
    swept = Swept(project)
    assert swept.moved == {
        "timer": "completed",
        "tool": "completed",
        "answered": "completed",
        "times-out": "completed",
        "new": "awaiting_timer",
        "interrupted": "completed",
    }
    assert swept.faults == []
    assert (swept.summary.moved, swept.summary.failed, swept.summary.blocked, swept.summary.busy) == (6, 0, 0, 0)
    assert Swept(project).summary.moved == 0


def test_the_longest_due_is_first(project: Project) -> None:
    for name, ms in (("b", 300), ("a", 100), ("c", 200)):
        begin(project, name, "timer", ms)
        tick(project.store, name, project.clock)
    project.clock.now += 1000
    assert [report.job_id for report in Swept(project).reports] == ["a", "c", "b"]


def test_at_most_so_many(project: Project) -> None:
    for name in "abcde":
        begin(project, name, "done")
    assert Swept(project, max_jobs=2).summary.moved == 2
    assert Swept(project, max_jobs=2, drain=True).summary.moved == 2
    assert Swept(project, drain=True).summary.moved == 1


def test_a_jobs_failure_is_that_jobs(project: Project) -> None:
    begin(project, "bad", "nothing")
    begin(project, "good", "done")
    swept = Swept(project)
    assert swept.moved == {"bad": "failed", "good": "completed"}
    assert (swept.summary.moved, swept.summary.failed) == (2, 1)


def test_what_is_lasting_is_said_once(project: Project) -> None:
    begin(project, "refused", "refused")
    tick(project.store, "refused", project.clock)
    begin(project, "broken", "done")
    project.manifest_file("broken").write_bytes(b"{}")
    begin(project, "good", "done")
    first = Swept(project)
    assert sorted(job_id for job_id, _ in first.faults) == ["broken", "refused"]
    assert (first.summary.blocked, first.moved) == (2, {"good": "completed"})
    second = Swept(project)
    assert (second.summary.blocked, second.faults) == (2, [])
    project.manifest_file("broken").write_bytes(b"{ }")
    project.agent.write_text("close(2)")
    third = Swept(project)
    assert [job_id for job_id, _ in third.faults] == ["refused"]
    assert "agent changed since start" in str(third.faults[0][1])


def test_a_note_is_forgotten_when_the_job_goes_on(project: Project) -> None:
    begin(project, "job", "done")
    kept = project.agent.read_bytes()
    for _ in range(2):
        project.agent.write_text("close(2)")
        assert len(Swept(project).faults) == 1
        project.agent.write_bytes(kept)
        assert Swept(project).moved == {"job": "completed"} or project.store.load("job").terminal
        begin(project, "job-2", "done")
        break
    assert not Path(project.store.folder("job"), "blocked").exists()


def test_a_drain_goes_on_until_nothing_can_move(project: Project) -> None:
    for name in "abc":
        begin(project, name, "tool")
    begin(project, "sleeps", "timer", 100_000)
    swept = Swept(project, drain=True)
    assert swept.summary.moved == 7
    assert project.store.load("sleeps").status == "awaiting_timer"
    assert {project.store.load(name).status for name in "abc"} == {"completed"}


def test_a_drain_waits_for_timers_that_fall_within_it(tmp_path: Path) -> None:
    from cruft_sched.clock import SystemClock

    project = Project(tmp_path, AGENT)
    project.clock = SystemClock()  # type: ignore[assignment]  # real time: the drain really waits
    begin(project, "soon", "timer", 40)
    begin(project, "far", "timer", 100_000)
    swept = Swept(project, drain=True, for_ms=20_000)
    assert swept.summary.moved == 3
    assert project.store.load("soon").status == "completed"
    assert swept.summary.duration_ms < 20_000


def test_a_drain_ends_in_time(project: Project) -> None:
    project.agent.write_text('scheduler.callTool("echo", 1)')
    begin(project, "endless", "")
    swept = Swept(project, drain=True, for_ms=300)
    assert swept.summary.moved >= 1
    assert project.store.load("endless").status == "awaiting_tool"


def test_several_workers(project: Project) -> None:
    for number in range(12):
        begin(project, f"job-{number}", "tool")
    swept = Swept(project, drain=True, workers=4)
    assert swept.summary.moved == 24
    assert len(project.events()) == 24
    assert all(isinstance(report, Moved) for report in swept.reports)


def test_a_job_that_another_process_has_is_passed_over(project: Project) -> None:
    begin(project, "held", "done")
    begin(project, "free", "done")
    with project.store.hold("held"):
        swept = Swept(project, drain=True)
    assert (swept.moved, swept.summary.busy, swept.faults) == ({"free": "completed"}, 1, [])


def test_an_expired_job_is_a_failure_of_that_job(tmp_path: Path) -> None:
    project = Project(tmp_path, AGENT, tools=["echo"], budgets={"max_scheduler_turns": 1})
    begin(project, "job", "tool")
    swept = Swept(project, drain=True)
    assert isinstance(swept.reports[-1], OverBudget)
    assert (swept.summary.moved, swept.summary.failed) == (2, 1)


def test_a_lost_key_breaks_the_sweep(project: Project) -> None:
    begin(project, "job", "done")
    Path(project.root, "key").unlink()
    with pytest.raises(SealError):
        Swept(project)


def test_a_bug_in_one_job_lets_the_others_go_on(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(project, "a-poison", "done")
    begin(project, "good", "done")
    real = tick

    def poisoned(store: FileStore, job_id: str, *rest: Any, **more: Any) -> Report:
        return real(store, job_id, *rest, **more) if job_id == "good" else 1 / 0  # type: ignore[return-value]  # the bug

    monkeypatch.setattr(sweep_module, "tick", poisoned)
    swept = Swept(project)
    assert swept.moved == {"good": "completed"}
    ((job_id, fault),) = swept.faults
    assert job_id == "a-poison"
    assert isinstance(fault, InternalError)
    assert isinstance(fault.__cause__, ZeroDivisionError)


def test_a_job_that_cannot_move_takes_no_place(project: Project) -> None:
    begin(project, "aaa", "refused")
    tick(project.store, "aaa", project.clock)
    for name in ("b", "c"):
        begin(project, name, "done")
    assert Swept(project, max_jobs=1).moved == {"b": "completed"}
    assert Swept(project, max_jobs=1).moved == {"c": "completed"}


def test_the_note_of_a_fault_goes_with_any_move(project: Project) -> None:
    begin(project, "job", "timer", 1)
    kept = project.agent.read_bytes()
    note = Path(project.store.folder("job"), "blocked")
    for move in (tick, cancel):
        project.agent.write_text("close(2)")
        assert len(Swept(project).faults) == 1
        assert note.exists()
        project.agent.write_bytes(kept)
        move(project.store, "job", project.clock)
        assert not note.exists()
        project.clock.now += 10


def test_a_drain_looks_again_at_a_job_that_was_busy(project: Project) -> None:
    begin(project, "job", "done")
    with ExitStack() as stack:
        stack.enter_context(project.store.hold("job"))
        threading.Timer(0.05, stack.close).start()
        swept = Swept(project, drain=True, for_ms=20_000)
    assert swept.moved == {"job": "completed"}
    assert swept.summary.busy == 1


def test_a_deleted_job_is_no_fault(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(project, "job", "done")
    real = tick

    def deleted(store: FileStore, job_id: str, *rest: Any, **more: Any) -> Report:
        shutil.rmtree(store.folder(job_id))
        return real(store, job_id, *rest, **more)

    monkeypatch.setattr(sweep_module, "tick", deleted)
    swept = Swept(project)
    assert (swept.reports, swept.faults, swept.summary.blocked, swept.summary.busy) == ([], [], 0, 0)
