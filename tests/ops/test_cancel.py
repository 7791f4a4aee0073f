"""Cancel, in every status and at any moment."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from cruft_sched.core.manifest import STATUSES, TERMINAL, Status
from cruft_sched.errors import (
    WrongStatusError,
)
from cruft_sched.ops.cancel import cancel
from cruft_sched.ops.reports import Moved, Report
from cruft_sched.ops.tick import tick
from cruft_sched.stores.file import CancelRequest
from tests.ops.waiting import asking, run
from tests.support import Project, in_status


@pytest.mark.parametrize("status", STATUSES)
def test_cancel_in_every_status(project: Project, status: Status) -> None:
    project.start()
    project.put(in_status(project.store.load("job"), status))
    before = project.manifest_file().read_bytes()
    if status in TERMINAL - {"cancelled"}:
        with pytest.raises(WrongStatusError) as error:
            cancel(project.store, "job", project.clock)
        assert error.value.exit_code == 75
        assert project.manifest_file().read_bytes() == before
    else:
        report = cancel(project.store, "job", project.clock, "enough")
        assert (report.status, report.previous_status) == ("cancelled", status)
        assert report.already_cancelled == (status == "cancelled")
        job = project.store.load("job")
        assert (job.status, job.awaits, job.active_turn_id) == ("cancelled", (), None)
        assert cancel(project.store, "job", project.clock).already_cancelled
    assert sorted(os.listdir(project.store.folder("job"))) == ["lock", "manifest.json"]


def test_a_cancel_whose_process_died_is_applied_by_the_next_tick(tmp_path: Path) -> None:
    project = asking(tmp_path)
    uid = project.store.load("job").uid
    project.store.request_cancel("job", CancelRequest(uid=uid, reason="no"))
    report = run(project)
    assert (report.status, report.turn_id) == ("cancelled", None)
    assert project.store.load("job").timeline[-1].reason == "no"
    assert sorted(os.listdir(project.store.folder("job"))) == ["lock", "manifest.json"]


def test_a_request_for_another_job_of_the_same_name_is_not_applied(project: Project) -> None:
    project.start()
    project.store.request_cancel("job", CancelRequest(uid="0" * 32))
    assert run(project).status == "awaiting_timer"


def test_a_cancel_needs_no_policy(tmp_path: Path) -> None:
    project = asking(tmp_path)
    project.policy.unlink()
    assert cancel(project.store, "job", project.clock).status == "cancelled"


def test_a_running_job_is_cancelled_and_its_late_result_kept_out(tmp_path: Path) -> None:
    project = Project(tmp_path, "emit({}); while (true);")
    project.start()
    reports: list[Report] = []
    ticking = threading.Thread(target=lambda: reports.append(tick(project.store, "job", project.clock)))
    ticking.start()
    while not project.events():
        pass
    report = cancel(project.store, "job", project.clock, "stop it")
    ticking.join()
    assert (report.status, report.previous_status, report.already_cancelled) == ("cancelled", "running", False)
    (killed,) = reports
    assert isinstance(killed, Moved)
    assert (killed.status, killed.turn_id, killed.child_exit_code) == ("cancelled", "job/turn-1", 137)
    job = project.store.load("job")
    assert (job.status, job.timeline[-1].reason) == ("cancelled", "stop it")
    assert project.audit()[-1]["status"] == "cancelled"
