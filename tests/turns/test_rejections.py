"""A rejection that nobody handles fails the turn; one that somebody handles, even late, does not."""

from __future__ import annotations

import pytest

from cruft_sched.core.outcomes import AgentError, Completed, Failed, Sleep, Suspended, TurnOutcome
from cruft_sched.core.policy import Budgets
from cruft_sched.turns.turn import Turn, run_turn

UNHANDLED = {
    "async function main() { await null; throw new Error('boom') } main();": "Error: boom",
    "Promise.reject(new TypeError('t'))": "TypeError: t",
    "Promise.reject('text')": "text",
    "Promise.reject({toString() { throw 1 }})": "an error that cannot be shown",
    "Promise.reject('\\ud800x')": "���x",
    "new Promise((_, no) => no(1)); close(2)": "1",
    "Promise.resolve().then(() => { throw 5 })": "5",
}
HANDLED = [
    "async function main() { throw 1 } main().catch(() => {});",
    "const p = Promise.reject(1); await null; try { await p } catch {}",
    "await Promise.allSettled([Promise.reject(1)])",
    "Promise.reject(1).then(() => {}, () => {})",
    "try { await (async () => { throw 1 })() } catch {}",
]


def outcome(source: str) -> TurnOutcome:
    turn = Turn(source=source.encode(), context={}, state={}, budgets=Budgets(timeout_ms=10_000), scheduled=True)
    return run_turn(turn, lambda _kind, _fields: None)


@pytest.mark.parametrize("source", UNHANDLED)
def test_unhandled(source: str) -> None:
    ending = outcome(source).ending
    assert isinstance(ending, Failed)
    assert isinstance(ending.error, AgentError)
    assert ending.error.name == "UnhandledRejection"
    assert ending.error.message == f"a promise was rejected, and nobody handled it: {UNHANDLED[source]}"


@pytest.mark.parametrize("source", HANDLED)
def test_handled(source: str) -> None:
    assert isinstance(outcome(source).ending, Completed)


def test_what_was_set_going_is_run_to_its_end() -> None:
    source = (
        "async function main() { for (let i = 0; i < 5; i++) await null; state.set('x', 1); scheduler.sleep(7) } main()"
    )
    ran = outcome(source)
    assert ran.ending == Suspended(request=Sleep(delay_ms=7))
    assert bytes(ran.state["x"]) == b"1"
