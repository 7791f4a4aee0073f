"""Tools, people, cancels and budgets, in one process, with a clock that the test sets."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from cruft_sched.core.awaits import WaitError
from cruft_sched.core.manifest import STATUSES, TERMINAL, Status
from cruft_sched.errors import (
    BusyError,
    CruftError,
    DataError,
    RefusedError,
    StorageError,
    UsageError,
    WrongStatusError,
)
from cruft_sched.ops.cancel import cancel
from cruft_sched.ops.reports import Moved, OverBudget, Report
from cruft_sched.ops.show_token import show_token
from cruft_sched.ops.submit_input import submit_input
from cruft_sched.ops.tick import tick
from cruft_sched.stores.file import CancelRequest
from cruft_sched.tools import registry
from cruft_sched.tools.registry import Call, Tool
from tests.seam import Seam, failing
from tests.support import Project, in_status

CALL = "const r = context.scheduler_resume; if (!r) scheduler.callTool(%s); emit({seen: r}); close(r)"
ASK = "const r = context.scheduler_resume; if (!r) scheduler.waitForInput(%s); emit({seen: r}); close(r)"


def run(project: Project) -> Moved:
    report = tick(project.store, "job", project.clock)
    assert isinstance(report, Moved)
    return report


def calling(folder: Path, call: str, **policy: Any) -> Project:
    """A project whose job waits for a tool."""
    project = Project(folder, CALL % call, **({"tools": ["echo", "fail", "slow"]} | policy))
    project.start()
    assert run(project).status == "awaiting_tool"
    return project


def asking(folder: Path, ask: str = '"approval", {subject: "deploy"}', **policy: Any) -> Project:
    """A project whose job waits for a person."""
    project = Project(folder, ASK % ask, **policy)
    project.start()
    assert run(project).status == "awaiting_input"
    return project


def answer(project: Project, value: str = '{"approved": true}', **more: Any) -> Report:
    token = more.pop("token", None) or show_token(project.store, "job").token
    return submit_input(project.store, "job", token, value.encode(), project.clock, **more)


def seen(project: Project) -> Any:
    """What the resumed turn received."""
    return project.events()[-1]["seen"]


def test_echo_gives_its_arguments_back(tmp_path: Path) -> None:
    project = calling(tmp_path, '"echo", {value: "żółw", n: [1, 2.5, null]}')
    report = run(project)
    assert (report.status, report.turn_cursor) == ("completed", 2)
    assert seen(project)["kind"] == "tool"
    assert seen(project)["result"] == {"value": "żółw", "n": [1, 2.5, None]}
    job = project.store.load("job")
    assert (job.budget_ledger.tools, job.awaits) == (1, ())
    assert [entry.event for entry in job.timeline][-3:] == ["tool_done", "turn_started", "completed"]
    assert job.timeline[-3].tool == "echo"
    with pytest.raises(WrongStatusError):
        run(project)


def test_fail_is_data_for_the_agent(tmp_path: Path) -> None:
    project = calling(tmp_path, '"fail"')
    assert run(project).status == "completed"
    assert seen(project)["error"] == {
        "message": "the tool fail always fails",
        "disposition": "error",
        "tool": "fail",
    }
    assert "result" not in seen(project)


def test_slow_within_its_timeout(tmp_path: Path) -> None:
    project = calling(tmp_path, '"slow", {delay_ms: 20, value: 7}')
    run(project)
    assert seen(project)["result"] == {"ok": True, "tool": "slow", "delay_ms": 20, "value": 7}


@pytest.mark.parametrize(
    ("options", "policy", "timeout_ms"),
    [
        ("{timeout_ms: 10}", {}, 10),
        ("{timeout_ms: 0}", {}, 0),
        ("{timeout_ms: 60000}", {"budgets": {"tool_timeout_ms": 15}}, 15),
    ],
)
def test_slow_over_its_timeout(tmp_path: Path, options: str, policy: dict[str, Any], timeout_ms: int) -> None:
    project = calling(tmp_path, f'"slow", {{delay_ms: 86400000, value: 7}}, {options}', **policy)
    run(project)
    error = seen(project)["error"]
    assert error.pop("message") == f"slow was not done after {timeout_ms} ms"
    assert error == {
        "disposition": "timeout",
        "tool": "slow",
        "timeout_ms": timeout_ms,
        "duration_ms": 86400000,
        "late_result_suppressed": True,
    }


@pytest.mark.parametrize(
    ("call", "policy", "what"),
    [
        ('"echo"', {"tools": []}, 'tool "echo" is not allowed by policy'),
        ('"shell"', {}, 'tool "shell" is not allowed by policy'),
        ('"readFile"', {"tools": ["readFile"]}, 'durable tool "readFile" is not available'),
    ],
)
def test_the_gates(tmp_path: Path, call: str, policy: dict[str, Any], what: str) -> None:
    project = calling(tmp_path, call, **policy)
    before = project.manifest_file().read_bytes()
    with pytest.raises(RefusedError, match=what) as error:
        run(project)
    assert error.value.exit_code == 76
    assert project.manifest_file().read_bytes() == before
    assert sorted(os.listdir(project.store.folder("job"))) == ["lock", "manifest.json"]


class Counter:
    """A tool that writes: it counts its calls, and may die in one."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.error: BaseException | None = None

    def __call__(self, call: Call) -> Raw | WaitError:
        self.keys.append(call.idempotency_key)
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return registry.as_json({"done": len(self.keys)})


@pytest.fixture
def counter() -> Counter:
    return Counter()


def install(monkeypatch: pytest.MonkeyPatch, counter: Counter, **kind: bool) -> None:
    monkeypatch.setattr(registry, "catalogue", lambda: {"echo": Tool(run=counter, **kind)})


def test_an_effect_is_never_blindly_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counter: Counter) -> None:
    install(monkeypatch, counter, writes=True)
    project = calling(tmp_path, '"echo", {}')
    counter.error = KeyboardInterrupt()  # the driver dies in the call
    with pytest.raises(KeyboardInterrupt):
        run(project)
    assert project.store.load("job").status == "awaiting_tool"
    assert run(project).status == "completed"
    assert len(counter.keys) == 1
    assert seen(project)["error"]["disposition"] == "unknown"
    events = [entry.event for entry in project.store.load("job").timeline]
    assert events[-4:] == ["tool_started", "tool_done", "turn_started", "completed"]


@pytest.mark.parametrize("kind", [{}, {"writes": True, "idempotent": True}])
def test_what_may_be_repeated_is_with_the_same_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counter: Counter, kind: dict[str, bool]
) -> None:
    install(monkeypatch, counter, **kind)
    project = calling(tmp_path, '"echo", {}')
    counter.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        run(project)
    run(project)
    assert len(counter.keys) == 2
    assert len(set(counter.keys)) == 1
    assert seen(project)["result"] == {"done": 2}


def test_a_settled_call_is_not_made_again_when_its_turn_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counter: Counter
) -> None:
    install(monkeypatch, counter, writes=True)
    project = calling(tmp_path, '"echo", {}')
    with Seam() as seam:
        tick(project.store, "job", project.clock)
    last_commit = len(seam.seen) - 5
    again = calling(tmp_path / "again", '"echo", {}')
    with Seam(failing(last_commit, 5)), pytest.raises(StorageError):
        tick(again.store, "job", again.clock)
    calls = len(counter.keys)
    assert run(again).status == "completed"
    assert len(counter.keys) == calls
    assert seen(again)["result"] == {"done": calls}


def test_a_tool_that_raises_is_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counter: Counter) -> None:
    install(monkeypatch, counter)
    counter.error = ZeroDivisionError("oops")
    project = calling(tmp_path, '"echo"')
    run(project)
    assert seen(project)["error"] == {
        "message": "ZeroDivisionError: oops",
        "disposition": "error",
        "tool": "echo",
    }


def test_a_result_that_is_too_large_is_an_error(tmp_path: Path) -> None:
    project = calling(tmp_path, '"echo", "x".repeat(100)', budgets={"max_tool_result_bytes": 50})
    run(project)
    assert "max_tool_result_bytes is 50" in seen(project)["error"]["message"]


def test_an_answer(tmp_path: Path) -> None:
    project = asking(tmp_path)
    report = answer(project, by="ann")
    assert isinstance(report, Moved)
    assert (report.type, report.status, report.turn_cursor) == ("agent_scheduler_input", "completed", 2)
    assert seen(project)["result"] == {"approved": True}
    assert "token" not in json.dumps(seen(project))
    entry = project.store.load("job").timeline[-3]
    assert (entry.event, entry.by) == ("answered", "ann")


def test_a_deferred_answer_leaves_the_turn_to_the_next_tick(tmp_path: Path) -> None:
    project = asking(tmp_path)
    report = answer(project, defer=True, by="bob")
    assert isinstance(report, Moved)
    assert (report.status, report.turn_id) == ("awaiting_input", None)
    project.clock.now += 1000
    with pytest.raises(WrongStatusError, match=r"was answered at 2027-01-15T08:00:00\.000\+00:00 by bob"):
        answer(project, token="0" * 32)
    assert run(project).status == "completed"
    assert seen(project)["result"] == {"approved": True}


@pytest.mark.parametrize(
    ("value", "token", "error", "code"),
    [
        ('{"approved": true}', "wrong", RefusedError, 76),
        ('{"approved": true}', "ü\udcff", RefusedError, 76),
        ("{", None, DataError, 65),
        ("", None, DataError, 65),
        ('{"approved": true, "approved": false}', None, DataError, 65),
        ('{"approved": 1}', None, DataError, 65),
        ("NaN", None, DataError, 65),
    ],
)
def test_a_wrong_answer_leaves_the_job_waiting(
    tmp_path: Path, value: str, token: str | None, error: type[CruftError], code: int
) -> None:
    ask = '"approval", 1, {schema: {type: "object", properties: {approved: {type: "boolean"}}}}'
    project = asking(tmp_path, ask)
    before = project.manifest_file().read_bytes()
    with pytest.raises(error) as refusal:
        answer(project, value, token=token)
    assert refusal.value.exit_code == code
    assert project.manifest_file().read_bytes() == before
    with pytest.raises(WrongStatusError, match="a person must answer"):
        run(project)
    report = answer(project)
    assert isinstance(report, Moved)
    assert report.status == "completed"


def test_a_token_is_of_one_wait_of_one_job(tmp_path: Path) -> None:
    source = 'const n = (state.get("n") ?? 0) + 1; state.set("n", n); scheduler.waitForInput("again", {same: true})'
    project = Project(tmp_path, source)
    tokens = set()
    for name in ("job", "other"):
        project.start(name)
        tick(project.store, name, project.clock)
        tokens.add(show_token(project.store, name).token)
    old = show_token(project.store, "job").token
    answer(project, token=old)
    tokens.add(show_token(project.store, "job").token)
    assert len(tokens) == 3
    with pytest.raises(RefusedError):
        answer(project, token=old)


def test_a_job_started_again_under_its_name_accepts_nothing_of_the_old_one(tmp_path: Path) -> None:
    project = asking(tmp_path)
    old = show_token(project.store, "job").token
    for name in os.listdir(project.store.folder("job")):
        os.unlink(os.path.join(project.store.folder("job"), name))
    project.start()
    run(project)
    assert show_token(project.store, "job").token != old
    with pytest.raises(RefusedError):
        answer(project, token=old)


def test_a_timeout_that_resumes(tmp_path: Path) -> None:
    project = asking(tmp_path, '"approval", 1, {timeout_ms: 1000}')
    token = show_token(project.store, "job").token
    with pytest.raises(WrongStatusError, match="a person must answer"):
        run(project)
    project.clock.now += 1000
    with pytest.raises(WrongStatusError, match="ended at"):
        answer(project, token=token)
    assert run(project).status == "completed"
    assert seen(project)["error"] == {"message": "nobody answered before the deadline", "disposition": "timeout"}


def test_a_timeout_that_fails(tmp_path: Path) -> None:
    project = asking(tmp_path, '"approval", 1, {timeout_ms: 1000, on_timeout: "fail"}')
    project.clock.now += 1000
    report = run(project)
    assert (report.status, report.turn_id, report.turn_cursor) == ("failed", None, 1)
    assert str(report.error) == "nobody answered before the deadline of the input"


def test_an_answer_in_time_wins_over_the_deadline(tmp_path: Path) -> None:
    project = asking(tmp_path, '"approval", 1, {timeout_ms: 1000, on_timeout: "fail"}')
    answer(project, defer=True)
    project.clock.now += 5000
    assert run(project).status == "completed"


def test_the_turn_budget(tmp_path: Path) -> None:
    project = Project(tmp_path, 'emit({n: 1}); scheduler.callTool("echo")', budgets={"max_scheduler_turns": 1})
    project.start()
    run(project)
    report = tick(project.store, "job", project.clock)
    assert report == OverBudget(
        job_id="job", status="expired", budget="max_scheduler_turns", limit=1, attempted=2, attempted_turn=2
    )
    assert len(project.events()) == 1
    job = project.store.load("job")
    assert (job.status, job.turn_cursor, job.awaits, job.budget_ledger.tools) == ("expired", 1, (), 0)


def test_the_age_budget(tmp_path: Path) -> None:
    project = asking(tmp_path, budgets={"max_age_ms": 1000})
    project.clock.now += 1001
    report = answer(project)
    assert isinstance(report, OverBudget)
    assert (report.budget, report.limit, report.attempted) == ("max_age_ms", 1000, 1001)
    assert len(project.events()) == 0


def test_an_interrupted_turn_counts_against_the_budget(tmp_path: Path) -> None:
    project = Project(tmp_path, budgets={"max_scheduler_turns": 1})
    project.start()
    project.put(in_status(project.store.load("job"), "running"))
    assert isinstance(tick(project.store, "job", project.clock), OverBudget)


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


def test_two_answers_at_once(tmp_path: Path) -> None:
    project = asking(tmp_path)
    token = show_token(project.store, "job").token
    with project.store.hold("job"), pytest.raises(BusyError):
        answer(project, token=token)
    answer(project, token=token, by="ann", defer=True)
    with project.store.hold("job"), pytest.raises(WrongStatusError, match=r"was answered at .* by ann"):
        answer(project, token=token)


@pytest.mark.parametrize("by", ["", "x" * 1001, "\udcff"])
def test_by_is_a_name(tmp_path: Path, by: str) -> None:
    project = asking(tmp_path)
    with pytest.raises(UsageError, match="the name of who answers"):
        answer(project, by=by)
