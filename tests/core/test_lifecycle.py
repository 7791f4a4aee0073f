"""Every status x event pair: the legal ones by their outcome, the illegal ones by exit code and unchanged bytes."""

from __future__ import annotations

import re
from itertools import product

import pytest
from msgspec import Raw

from cruft_sched.core import awaits, lifecycle
from cruft_sched.core.lifecycle import TRANSITIONS, Event, advance, recover
from cruft_sched.core.manifest import STATUSES, TERMINAL, TIMELINE_LIMIT, Manifest, Status
from cruft_sched.core.outcomes import BudgetError, ChildError
from cruft_sched.errors import WrongStatusError
from tests.support import AUDIT_HEAD, HASH, NOW, Project, in_status, question, timer, tool

BLANK = Manifest(
    job_id="job",
    uid="0" * 32,
    status="created",
    revision=1,
    created_ms=NOW,
    updated_ms=NOW,
    policy_path="/p",
    policy_hash=HASH,
    agent_path="/a",
    agent_hash=HASH,
    context={},
    state={"old": Raw(b"1")},
)
ERROR = ChildError(message="died")
DONE_TOOL = awaits.tool_done(tool(), Raw(b"1"), NOW)
EVENTS: dict[str, Event] = {
    "turn_started": lifecycle.TurnStarted(),
    "fired": lifecycle.Settled(name="fired", wait=awaits.fired(timer(), NOW)),
    "tool_started": lifecycle.Settled(name="tool_started", wait=awaits.tool_started(tool(), NOW)),
    "tool_done": lifecycle.Settled(name="tool_done", wait=DONE_TOOL),
    "answered": lifecycle.Settled(name="answered", wait=awaits.answered(question(), Raw(b"2"), "ann", NOW)),
    "timed_out": lifecycle.Settled(name="timed_out", wait=awaits.unanswered(question(), NOW)),
    "suspended": lifecycle.Suspended(wait=timer(), state={"n": Raw(b"2")}, events=3, audit=AUDIT_HEAD),
    "completed": lifecycle.Completed(result=Raw(b"[7]"), state={"n": Raw(b"2")}, events=3, audit=AUDIT_HEAD),
    "failed": lifecycle.Failed(error=ERROR, audit=AUDIT_HEAD),
    "interrupted": lifecycle.Interrupted(),
    "cancelled": lifecycle.Cancelled(reason="enough"),
    "expired": lifecycle.Expired(error=BudgetError(budget="max_scheduler_turns", limit=1, attempted=2)),
}
# The whole table once more, by hand: what is not here must be refused. A turn does not start from an await that is
# not settled, so the pairs of it are tried with one that is (see SETTLED).
LEGAL: dict[tuple[Status, str], Status] = {
    ("created", "turn_started"): "running",
    ("running", "suspended"): "awaiting_timer",
    ("running", "completed"): "completed",
    ("running", "failed"): "failed",
    ("running", "interrupted"): "created",
    ("awaiting_timer", "fired"): "awaiting_timer",
    ("awaiting_tool", "tool_started"): "awaiting_tool",
    ("awaiting_tool", "tool_done"): "awaiting_tool",
    ("awaiting_input", "answered"): "awaiting_input",
    ("awaiting_input", "timed_out"): "awaiting_input",
    ("awaiting_input", "failed"): "failed",
}
OPEN: tuple[Status, ...] = ("created", "running", "awaiting_timer", "awaiting_tool", "awaiting_input")
ENDS: tuple[Status, ...] = ("cancelled", "expired")
LEGAL |= {(status, end): end for status in OPEN for end in ENDS}
SETTLED: dict[Status, str] = {"awaiting_timer": "fired", "awaiting_tool": "tool_done", "awaiting_input": "answered"}


@pytest.mark.parametrize(("status", "name"), list(product(STATUSES, EVENTS)))
def test_every_pair(project: Project, status: Status, name: str) -> None:
    project.start()
    job = in_status(project.store.load("job"), status)
    project.put(job)
    before = project.manifest_file().read_bytes()
    with project.store.hold("job") as held:
        if (status, name) in LEGAL:
            held.commit(advance(held.load(), EVENTS[name], NOW + 5))
            after = project.store.load("job")
            assert after.status == LEGAL[status, name]
            assert after.timeline[-1].event == name
            assert after.timeline[-1].status == after.status
            assert after.timeline[-1].at_ms == NOW + 5
            assert after.timeline[-1].reason == ("enough" if name == "cancelled" else None)
            assert after.revision == job.revision + 2
        else:
            with pytest.raises(WrongStatusError) as refusal:
                held.commit(advance(held.load(), EVENTS[name], NOW + 5))
            assert refusal.value.exit_code == 75
            assert project.manifest_file().read_bytes() == before


@pytest.mark.parametrize("status", SETTLED)
def test_a_settled_await_starts_a_turn_and_is_settled_once(status: Status) -> None:
    job = advance(in_status(BLANK, status), EVENTS[SETTLED[status]], NOW)
    with pytest.raises(WrongStatusError, match="settled already"):
        advance(job, EVENTS[SETTLED[status]], NOW)
    running = advance(job, EVENTS["turn_started"], NOW)
    assert (running.status, running.awaits) == ("running", job.awaits)
    assert (job.budget_ledger.outstanding_awaits, job.budget_ledger.tools) == (0, int(status == "awaiting_tool"))
    assert recover(running, NOW).status == status


def test_a_started_tool_is_not_settled() -> None:
    job = advance(in_status(BLANK, "awaiting_tool"), EVENTS["tool_started"], NOW)
    with pytest.raises(WrongStatusError, match="still waits"):
        advance(job, EVENTS["turn_started"], NOW)
    assert advance(job, EVENTS["tool_done"], NOW).awaits == (DONE_TOOL,)


def test_nothing_leaves_the_end() -> None:
    assert {status for status, events in TRANSITIONS.items() if not events} == TERMINAL


def test_a_turn_starts() -> None:
    job = advance(BLANK, EVENTS["turn_started"], NOW)
    assert (job.turn_cursor, job.active_turn_id) == (1, "job/turn-1")
    assert job.budget_ledger.turns == 1


def test_a_suspended_turn_leaves_state_counts_and_await_together() -> None:
    job = advance(in_status(BLANK, "running"), EVENTS["suspended"], NOW)
    assert job.state == {"n": Raw(b"2")}
    assert (job.budget_ledger.events, job.budget_ledger.outstanding_awaits) == (3, 1)
    assert job.awaits == (timer(),)
    assert job.timeline[-1].deadline_ms == timer().payload.deadline_ms
    assert (job.active_turn_id, job.last_turn_status, job.audit) == (None, "suspended", AUDIT_HEAD)


def test_a_failed_turn_leaves_the_state_of_the_turn_before() -> None:
    job = advance(in_status(BLANK, "running"), EVENTS["failed"], NOW)
    assert job.state == BLANK.state
    assert (job.budget_ledger.events, job.budget_ledger.failures) == (0, 1)
    assert job.error == ERROR
    assert job.timeline[-1].error == "died"


def test_the_end_empties_the_awaits() -> None:
    for name in ("cancelled", "expired"):
        job = advance(in_status(BLANK, "awaiting_timer"), EVENTS[name], NOW)
        assert (job.awaits, job.budget_ledger.outstanding_awaits) == ((), 0)


def test_an_interrupted_turn_goes_back_to_where_it_started() -> None:
    fired = advance(in_status(BLANK, "awaiting_timer"), EVENTS["fired"], NOW)
    back = recover(advance(fired, EVENTS["turn_started"], NOW), NOW)
    assert (back.status, back.awaits, back.interruptions) == ("awaiting_timer", fired.awaits, 1)
    assert (back.active_turn_id, back.turn_cursor) == (None, 2)


def test_the_third_interruption_in_a_row_fails_the_job() -> None:
    job = BLANK
    for _ in range(2):
        job = recover(advance(job, EVENTS["turn_started"], NOW), NOW)
        assert job.status == "created"
    job = recover(advance(job, EVENTS["turn_started"], NOW), NOW)
    assert job.status == "failed"
    assert str(job.error) == "the turn was interrupted 3 times in a row"


def test_a_turn_that_ends_forgets_the_interruptions() -> None:
    job = recover(advance(BLANK, EVENTS["turn_started"], NOW), NOW)
    job = advance(advance(job, EVENTS["turn_started"], NOW), EVENTS["suspended"], NOW)
    assert job.interruptions == 0


def test_a_clock_set_back_does_not_take_the_timeline_with_it() -> None:
    job = advance(BLANK, EVENTS["turn_started"], NOW - 3_600_000)
    assert job.timeline[-1].at_ms == NOW
    assert job.timeline[-1].clock_ms == NOW - 3_600_000


def test_the_timeline_keeps_the_newest_and_counts_the_rest() -> None:
    job = lifecycle.created(BLANK)
    for n in range(200):
        job = advance(job, EVENTS["turn_started"], NOW + n)
        job = advance(job, EVENTS["suspended"], NOW + n)
        job = advance(job, EVENTS["fired"], NOW + n)
    assert len(job.timeline) == TIMELINE_LIMIT
    assert job.timeline_dropped == 601 - TIMELINE_LIMIT
    assert job.timeline[-1].at_ms == NOW + 199


def test_the_refusal_says_what_to_do() -> None:
    with pytest.raises(WrongStatusError, match=re.escape("job job is cancelled, which does not admit")):
        advance(in_status(BLANK, "cancelled"), EVENTS["turn_started"], NOW)
