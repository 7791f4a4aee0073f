"""What is JavaScript's alone, in real child processes. What both languages do is in test_both_languages.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import Raw

from cruft_sched.core.outcomes import (
    AgentError,
    BudgetError,
    Completed,
    Failed,
    Suspended,
    TurnOutcome,
)
from cruft_sched.core.policy import Budgets
from cruft_sched.turns.session import no_tools
from cruft_sched.turns.turn import Turn, run_turn


class Result:
    """A turn's outcome, and what it noted."""

    def __init__(self, source: str, scheduled: bool = True, **given: Any) -> None:
        self.notes: list[tuple[str, Any]] = []
        turn = Turn(
            source=source.encode(),
            context={key: Raw(json.dumps(value).encode()) for key, value in given.get("context", {}).items()},
            state={key: Raw(json.dumps(value).encode()) for key, value in given.get("state", {}).items()},
            budgets=given.get("budgets", Budgets(timeout_ms=10_000)),
            language=given.get("language", "javascript"),
            isolation=given.get("isolation", "strict"),
            scheduled=scheduled,
            modules={name: text.encode() for name, text in given.get("modules", {}).items()},
            entry_module=given.get("entry_module", ""),
            expected_events=given.get("expected_events"),
        )
        stop, gate = given.get("stop", lambda: None), given.get("gate", no_tools)
        self.outcome: TurnOutcome = run_turn(turn, self._note, stop, gate=gate)

    def _note(self, kind: str, fields: Mapping[str, Any]) -> None:
        self.notes.append((kind, fields))

    @property
    def events(self) -> list[Any]:
        return [json.loads(bytes(fields["event"])) for kind, fields in self.notes if kind == "emit"]

    @property
    def denials(self) -> list[str]:
        return [fields["specifier"] for kind, fields in self.notes if kind == "import_denial"]

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.notes]

    @property
    def value(self) -> Any:
        ending = self.outcome.ending
        assert isinstance(ending, Completed), ending
        return json.loads(bytes(ending.result))

    @property
    def error(self) -> Any:
        ending = self.outcome.ending
        assert isinstance(ending, Failed), ending
        return ending.error

    @property
    def request(self) -> Any:
        ending = self.outcome.ending
        assert isinstance(ending, Suspended), ending
        return ending.request

    @property
    def state(self) -> dict[str, Any]:
        return {key: json.loads(bytes(value)) for key, value in self.outcome.state.items()}


def test_the_globals_are_frozen() -> None:
    ran = Result(
        "let threw = []; for (const f of [() => { globalThis.context = 1 }, () => { delete globalThis.emit },"
        "() => { close.call = 1 }, () => { Object.defineProperty(globalThis, 'state', {value: 1}) }])"
        "{ try { f(); threw.push(false) } catch (e) { threw.push(e instanceof TypeError) } } close(threw)"
    )
    assert ran.value == [True] * 4


def test_the_agent_may_name_its_own_things_as_it_likes() -> None:
    assert Result("const state = 1; const scheduler = 2; close(state + scheduler)").value == 3


@pytest.mark.parametrize("call", ["", "undefined", "5n", "{valueOf() { return 5 }}"])
def test_no_sleep(call: str) -> None:
    ran = Result(f"try {{ scheduler.sleep({call}) }} catch (e) {{ close(e.name) }}")
    assert ran.value == "TypeError"


@pytest.mark.parametrize("call", ["", "NaN", "{}", "null", "5n", "new Date()"])
def test_no_sleep_until(call: str) -> None:
    ran = Result(f"try {{ scheduler.sleepUntil({call}) }} catch (e) {{ close(e.name) }}")
    assert ran.value == "TypeError"


def test_what_the_agent_does_not_have() -> None:
    names = ["setTimeout", "require", "process", "console", "fetch", "std", "os", "performance", "WeakRef", "__emit"]
    assert Result(f"close({json.dumps(names)}.filter(n => n in globalThis))").value == []


@pytest.mark.parametrize("what", ["'std'", "'os'", "'./agent.js'", "'/etc/passwd'"])
def test_nothing_can_be_imported(what: str) -> None:
    assert Result(f"try {{ await import({what}); close('in') }} catch (e) {{ close('out') }}").value == "out"


@pytest.mark.parametrize("event", ["undefined", "null", "5", "'x'", "[1]", "() => 1", "10n", "{toJSON() { return 5 }}"])
def test_an_event_is_an_object(event: str) -> None:
    assert Result(f"try {{ emit({event}) }} catch (e) {{ close(e.name) }}").value == "TypeError"


THROWN = {
    "throw new TypeError('boo')": ("TypeError", "boo"),
    "throw 'text'": ("Error", "text"),
    "throw null": (
        "Error",
        "null was thrown, as the engine does when no memory is left (the budget max_rss_mb)",
    ),
    "throw Symbol('s')": ("Error", "Symbol(s)"),
    "throw {name: 'N', message: 'm'}": ("N", "m"),
    "throw {get name() { throw 1 }}": ("Error", "an error that cannot be shown"),
    "throw {toString() { throw 1 }}": ("Error", ""),
    "throw new Proxy({}, {get() { throw 1 }})": ("Error", "an error that cannot be shown"),
    "await Promise.reject(new RangeError('r'))": ("RangeError", "r"),
    "let ; = 4": ("SyntaxError", "variable name expected (agent.js, line 1, column 5)"),
    "import x from 'std'": ("Error", 'the import of "std" is not admitted by the policy'),
    "undefinedName": ("ReferenceError", "undefinedName is not defined"),
    "await new Promise(() => {})": ("Error", "the agent awaits something that can never happen"),
    "(function f() { f() })()": ("RangeError", "Maximum call stack size exceeded"),
}


@pytest.mark.parametrize("source", THROWN)
def test_what_the_agent_throws_fails_the_turn(source: str) -> None:
    ran = Result(source)
    assert isinstance(ran.error, AgentError)
    assert (ran.error.name, ran.error.message) == THROWN[source]
    assert ran.outcome.child_exit_code == 1


def test_an_error_of_the_engine_is_cut_to_what_is_kept_of_it() -> None:
    getter = "{ get() { throw new Error('m'.repeat(3000)) } }"  # which the engine calls where no agent's code can catch
    ran = Result(f"Object.defineProperty(Promise.prototype, 'constructor', {getter})")
    assert isinstance(ran.error, AgentError)
    assert ran.error.message == "m" * 2000


def test_an_error_says_where() -> None:
    assert ":3:" in Result("\n\n  throw new Error('x')").error.stack
    assert ":2:" in Result("\n let ; = 4").error.stack


@pytest.mark.parametrize(
    "source",
    [
        "while (true);",
        "throw {toString() { while (true); }, get message() { while (true); }}",
        "emit({toJSON() { while (true); }})",
        "const f = () => Promise.resolve().then(f); await f()",
        "/(a+)+$/.test('a'.repeat(50) + 'b')",
    ],
)
def test_whatever_goes_on_for_ever_is_killed_at_the_wall(source: str) -> None:
    ran = Result(source, budgets=Budgets(timeout_ms=150, max_microtasks=1 << 53))
    assert isinstance(ran.error, BudgetError)
    assert (ran.error.budget, ran.error.limit) == ("timeout_ms", 150)
    assert ran.error.attempted >= 150


def test_changed_builtins_change_nothing_for_the_driver() -> None:
    ran = Result(
        "JSON.stringify = () => 'no'; Object.freeze = null; Array.prototype.push = null; Array.prototype.map = null;"
        "Promise.prototype.then = () => { throw 1 }; Reflect.apply = null; String.prototype.slice = null;"
        "Object.prototype.toJSON = () => 'no'; delete Object.prototype.toJSON; RegExp.prototype.test = () => true;"
        "RegExp.prototype.exec = () => [];"
        'emit({kind: "fine"}); state.set("a", [1]); close("ok")'
    )
    assert ran.events == [{"kind": "fine"}]
    assert (ran.value, ran.state) == ("ok", {"a": [1]})


def test_numbers_go_through_as_written() -> None:
    ran = Result("close([1e300, 9007199254740993, 1e21, -0, 0.1, 2147483648, 4294967296])")
    assert ran.value == [1e300, 9007199254740992, 1e21, 0, 0.1, 2147483648, 4294967296]
