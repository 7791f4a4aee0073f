"""Input awaits: tokens, schemas, deadlines; and the budgets of a whole job."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from cruft_sched.core import awaits
from cruft_sched.core.awaits import InputAwait
from cruft_sched.core.lifecycle import Settled, TurnStarted, advance
from cruft_sched.errors import (
    CruftError,
    DataError,
    RefusedError,
    UsageError,
    WrongStatusError,
)
from cruft_sched.ops.reports import Moved, OverBudget
from cruft_sched.ops.show_token import show_token
from cruft_sched.ops.tick import tick
from tests.ops.waiting import answer, asking, run, seen
from tests.support import Project, in_status


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


def test_two_answers_at_once(tmp_path: Path) -> None:
    project = asking(tmp_path)
    token = show_token(project.store, "job").token
    with project.store.hold("job"), pytest.raises(WrongStatusError, match="is being advanced"):
        answer(project, token=token)
    answer(project, token=token, by="ann", defer=True)
    with project.store.hold("job"), pytest.raises(WrongStatusError, match=r"was answered at .* by ann"):
        answer(project, token=token)


@pytest.mark.parametrize("by", ["", "x" * 1001, "\udcff"])
def test_by_is_a_name(tmp_path: Path, by: str) -> None:
    project = asking(tmp_path)
    with pytest.raises(UsageError, match="the name of who answers"):
        answer(project, by=by)


def test_a_question_that_timed_out_was_not_answered(tmp_path: Path) -> None:
    project = asking(tmp_path, '"approval", 1, {timeout_ms: 1000}')
    token = show_token(project.store, "job").token
    project.clock.now += 1000
    with project.store.hold("job") as held:  # a driver that is killed in the turn after the timeout
        job = held.load()
        (wait,) = job.awaits
        assert isinstance(wait, InputAwait)
        timed_out = Settled(name="timed_out", wait=awaits.unanswered(wait, project.clock.now))
        held.commit(advance(advance(job, timed_out, project.clock.now), TurnStarted(), project.clock.now))
    with pytest.raises(WrongStatusError, match="ended at"):
        answer(project, token=token)


@pytest.mark.parametrize(
    ("schema", "sample"),
    [
        ("undefined", {"approved": True}),
        ('{type: "boolean"}', True),
        ('{type: "object", properties: {ok: {type: "boolean"}}, required: ["ok"]}', {"ok": True}),
        ('{enum: ["low", "high"]}', "low"),
        ('{type: "string", default: "x"}', "x"),
        ('{type: "string", minLength: 3}', None),
        ('{type: "integer", maximum: -5}', None),
        ('{required: ["approved"]}', {"approved": True}),
        ('{default: 1, type: "string"}', None),
    ],
)
def test_the_command_that_is_shown_is_one_that_works(tmp_path: Path, schema: str, sample: object) -> None:
    project = asking(tmp_path, f'"approval", 1, {{schema: {schema}}}')
    shown = shlex.split(show_token(project.store, "job").command)[-1]
    if sample is None:
        assert shown == "JSON"  # a place to fill in: no answer could be thought of
    else:
        assert json.loads(shown) == sample
        assert getattr(answer(project, shown), "status", None) == "completed"
