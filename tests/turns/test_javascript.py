"""What a JavaScript agent sees, does and cannot do, in real child processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import Raw

from cruft_sched.core.outcomes import (
    AgentError,
    BudgetError,
    ChildError,
    Completed,
    Failed,
    Sleep,
    SleepUntil,
    Suspended,
    TurnOutcome,
)
from cruft_sched.core.policy import Budgets
from cruft_sched.turns.turn import Turn, run_turn

TEN_YEARS_MS = 315_576_000_000


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
            scheduled=scheduled,
        )
        self.outcome: TurnOutcome = run_turn(turn, self._note)

    def _note(self, kind: str, fields: Mapping[str, Any]) -> None:
        self.notes.append((kind, fields))

    @property
    def events(self) -> list[Any]:
        return [json.loads(bytes(fields["event"])) for kind, fields in self.notes if kind == "emit"]

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


def test_events_and_the_value_given_to_close() -> None:
    ran = Result('emit({kind: "a", text: "żółw 🐢 \\u2028 \\u0000"}); close({n: 1.5, list: [1, null]})')
    assert ran.events == [{"kind": "a", "text": "żółw 🐢 \u2028 \0"}]
    assert ran.value == {"n": 1.5, "list": [1, None]}
    assert (ran.outcome.events, ran.outcome.child_exit_code) == (1, 0)


def test_no_close_is_null() -> None:
    assert Result("1 + 1").value is None


def test_the_context_is_given_and_frozen() -> None:
    ran = Result(
        "let threw = []; for (const f of [() => { context.a = 2 }, () => { context.deep.list.push(1) }, "
        "() => { globalThis.context = 1 }, () => { delete globalThis.emit }, () => { state.get = 1 }])"
        "{ try { f(); threw.push(false) } catch (e) { threw.push(e instanceof TypeError) } } close([context, threw])",
        context={"a": 1, "deep": {"list": [1]}},
    )
    assert ran.value == [{"a": 1, "deep": {"list": [1]}}, [True] * 5]


def test_the_agent_may_name_its_own_things_as_it_likes() -> None:
    assert Result("const state = 1; const scheduler = 2; close(state + scheduler)").value == 3


def test_the_state_is_kept_and_cloned() -> None:
    ran = Result(
        'const v = {list: [1]}; state.set("v", v); v.list.push(2); state.get("v").list.push(3); state.set("", 0);'
        'close([state.get("v"), state.get("old"), state.get("none") === undefined, state.delete("old"),'
        'state.delete("old"), state.list()])',
        state={"old": {"x": 1}},
    )
    assert ran.value == [{"list": [1]}, {"x": 1}, True, True, False, ["v", ""]]
    assert ran.state == {"v": {"list": [1]}, "": 0}
    assert [kind for kind, _ in ran.notes] == ["state_set", "state_set", "state_delete"]


@pytest.mark.parametrize("key", ["__proto__", "constructor", "toString", "a\u2028b", "\0", '"', "é"])
def test_any_text_is_a_key(key: str) -> None:
    ran = Result(f"state.set({json.dumps(key)}, 5); close(state.get({json.dumps(key)}))", state={key: 1})
    assert ran.value == 5
    assert ran.state == {key: 5}


def test_a_failed_turn_leaves_the_state_of_the_turn_before() -> None:
    ran = Result('state.set("a", 2); throw new Error("no")', state={"a": 1})
    assert ran.state == {"a": 1}


@pytest.mark.parametrize(
    ("call", "delay_ms"), [("0", 0), ("25", 25), ("0.5", 1), ("1e3", 1000), (str(TEN_YEARS_MS), TEN_YEARS_MS)]
)
def test_sleep(call: str, delay_ms: int) -> None:
    assert Result(f"scheduler.sleep({call})").request == Sleep(delay_ms=delay_ms)


@pytest.mark.parametrize("call", ["-1", "NaN", "Infinity", "'5'", "", "null", "5n", "[5]", str(TEN_YEARS_MS + 1)])
def test_no_sleep(call: str) -> None:
    ran = Result(f"try {{ scheduler.sleep({call}) }} catch (e) {{ close(e.name) }}")
    assert ran.value == "TypeError"


def test_sleep_until() -> None:
    assert Result('scheduler.sleepUntil("2030-01-02T03:04:05Z")').request == SleepUntil(deadline_ms=1893553445000)
    assert Result("scheduler.sleepUntil(1893553445000)").request == SleepUntil(deadline_ms=1893553445000)
    assert Result('scheduler.sleepUntil("2030-01-02T03:04:05")').request == SleepUntil(deadline_ms=1893553445000)


@pytest.mark.parametrize("call", ["'soon'", "NaN", "-1", "{}", "null", "new Date()", "'2999-01-01'"])
def test_no_sleep_until(call: str) -> None:
    ran = Result(f"try {{ scheduler.sleepUntil({call}) }} catch (e) {{ close(e.name) }}")
    assert ran.value == "TypeError"


SUSPENSIONS = {
    "catch": 'try { scheduler.sleep(5) } catch { emit({kind: "seen"}) }',
    "finally": 'try { scheduler.sleep(5) } finally { emit({kind: "seen"}) }',
    "after": 'scheduler.sleep(5); emit({kind: "seen"})',
    "async": 'async function f() { try { await null; scheduler.sleep(5) } finally { emit({kind: "seen"}) } } await f()',
    "generator": 'function* g() { try { scheduler.sleep(5) } finally { emit({kind: "seen"}) } } for (const x of g());',
    "reaction": 'Promise.resolve().then(() => scheduler.sleep(5)).finally(() => emit({kind: "seen"})); await 1',
    "getter": 'const o = { get x() { scheduler.sleep(5) } }; try { emit(o) } finally { emit({kind: "seen"}) }',
    "toJSON": 'try { emit({ toJSON() { scheduler.sleep(5) } }) } finally { emit({kind: "seen"}) }',
}


@pytest.mark.parametrize("name", SUSPENSIONS)
def test_nothing_of_the_agent_runs_after_a_suspension(name: str) -> None:
    ran = Result(SUSPENSIONS[name])
    assert ran.request == Sleep(delay_ms=5)
    assert ran.events == []
    assert ran.outcome.child_exit_code == 0


def test_after_close_every_call_fails() -> None:
    ran = Result(
        "close(1); const threw = []; for (const f of [() => close(2), () => emit({}), () => scheduler.sleep(1),"
        '() => state.set("a", 1), () => state.get("a")]) { try { f() } catch (e) { threw.push(e.message) } }'
        "globalThis.threw = threw; if (threw.length !== 5) throw new Error('open')"
    )
    assert ran.value == 1


def test_outside_a_job_there_is_no_scheduler() -> None:
    assert Result("close(typeof scheduler)", scheduled=False).value == "undefined"
    assert Result("close(typeof scheduler)").value == "object"


def test_what_the_agent_does_not_have() -> None:
    names = ["setTimeout", "require", "process", "console", "fetch", "std", "os", "performance", "WeakRef", "__emit"]
    assert Result(f"close({json.dumps(names)}.filter(n => n in globalThis))").value == []


@pytest.mark.parametrize("what", ["'std'", "'os'", "'./agent.js'", "'/etc/passwd'"])
def test_nothing_can_be_imported(what: str) -> None:
    assert Result(f"try {{ await import({what}); close('in') }} catch (e) {{ close('out') }}").value == "out"


@pytest.mark.parametrize("event", ["undefined", "null", "5", "'x'", "[1]", "() => 1", "10n", "{toJSON() { return 5 }}"])
def test_an_event_is_an_object(event: str) -> None:
    assert Result(f"try {{ emit({event}) }} catch (e) {{ close(e.name) }}").value == "TypeError"


@pytest.mark.parametrize(
    "value", ["(() => { const a = {}; a.a = a; return a })()", "{n: 10n}", "'\\ud800'", "['x\\udfff']"]
)
def test_what_has_no_json_form_is_refused(value: str) -> None:
    for call in (f"emit({{v: {value}}})", f"state.set('v', {value})", f"close({value})"):
        assert isinstance(Result(f"try {{ {call} }} catch (e) {{ emit({{kind: e.name}}) }}").outcome.ending, Completed)
        assert Result(f"try {{ {call} }} catch (e) {{ emit({{kind: e.name}}) }}").events == [{"kind": "TypeError"}]


def test_an_escaped_backslash_is_no_surrogate() -> None:
    assert Result("close('\\\\ud800')").value == "\\ud800"


THROWN = {
    "throw new TypeError('boo')": ("TypeError", "boo"),
    "throw 'text'": ("Error", "text"),
    "throw null": ("Error", "null"),
    "throw Symbol('s')": ("Error", "Symbol(s)"),
    "throw {name: 'N', message: 'm'}": ("N", "m"),
    "throw {get name() { throw 1 }}": ("Error", "an error that cannot be shown"),
    "throw {toString() { throw 1 }}": ("Error", ""),
    "throw new Proxy({}, {get() { throw 1 }})": ("Error", "an error that cannot be shown"),
    "await Promise.reject(new RangeError('r'))": ("RangeError", "r"),
    "let ; = 4": ("SyntaxError", "variable name expected"),
    "import x from 'std'": ("ReferenceError", "could not load module 'std'"),
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
    ran = Result(source, budgets=Budgets(timeout_ms=150))
    assert isinstance(ran.error, BudgetError)
    assert (ran.error.budget, ran.error.limit) == ("timeout_ms", 150)
    assert 150 <= ran.error.attempted < 1150


def test_memory_is_bounded() -> None:
    ran = Result("const a = []; while (true) a.push(new Array(10000).fill(1))", budgets=Budgets(max_rss_mb=32))
    assert isinstance(ran.error, AgentError | ChildError)
    assert Result("close('x'.repeat(1 << 20).length)", budgets=Budgets(max_rss_mb=32)).value == 1 << 20


def test_the_number_of_events_is_bounded() -> None:
    loop = "for (let i = 0; i < %d; i++) emit({i})"
    assert Result(loop % 5, budgets=Budgets(max_events=5)).value is None
    ran = Result(loop % 6, budgets=Budgets(max_events=5))
    assert ran.error == BudgetError(budget="max_events", limit=5, attempted=6)
    assert len(ran.events) == 5


def test_an_event_is_bounded_in_bytes() -> None:
    fits = '{"k":"%s"}' % ("é" * 46)
    assert len(fits.encode()) == 100
    assert Result(f"emit({fits})", budgets=Budgets(max_event_bytes=100)).events == [json.loads(fits)]
    ran = Result(f"emit({fits})", budgets=Budgets(max_event_bytes=99))
    assert ran.error == BudgetError(budget="max_event_bytes", limit=99, attempted=100)


def test_the_state_is_bounded_in_bytes() -> None:
    source = 'try { state.set("b", "xy") } catch (e) { emit({kind: e.name}) } close(state.list())'
    exact = len(json.dumps({"a": 1, "b": "xy"}, separators=(",", ":")))
    fits = Result(source, state={"a": 1}, budgets=Budgets(max_state_bytes=exact))
    assert (fits.value, fits.state) == (["a", "b"], {"a": 1, "b": "xy"})
    over = Result(source, state={"a": 1}, budgets=Budgets(max_state_bytes=exact - 1))
    assert (over.value, over.state) == (["a"], {"a": 1})
    assert over.events == [{"kind": "RangeError"}]


def test_changed_builtins_change_nothing_for_the_driver() -> None:
    ran = Result(
        "JSON.stringify = () => 'no'; Object.freeze = null; Array.prototype.push = null; Array.prototype.map = null;"
        "Promise.prototype.then = () => { throw 1 }; Reflect.apply = null; String.prototype.slice = null;"
        "Object.prototype.toJSON = () => 'no'; delete Object.prototype.toJSON; RegExp.prototype.test = () => true;"
        'emit({kind: "fine"}); state.set("a", [1]); close("ok")'
    )
    assert ran.events == [{"kind": "fine"}]
    assert (ran.value, ran.state) == ("ok", {"a": [1]})


def test_numbers_go_through_as_written() -> None:
    ran = Result("close([1e300, 9007199254740993, 1e21, -0, 0.1, 2147483648, 4294967296])")
    assert ran.value == [1e300, 9007199254740992, 1e21, 0, 0.1, 2147483648, 4294967296]
