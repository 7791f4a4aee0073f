"""What an agent sees and does, the same in both languages, in real child processes."""

from __future__ import annotations

import json

import pytest

from cruft_sched.core.outcomes import AgentError, Completed, Sleep
from tests.turns.agents import BOTH, LANGUAGES, Result, Table, cases, caught

TALK = {
    "javascript": 'emit({kind: "a", text: "żółw 🐢 \\u2028 \\u0000"}); close({n: 1.5, list: [1, null], t: true})',
    "python": 'emit({"kind": "a", "text": "żółw 🐢 \\u2028 \\0"}); close({"n": 1.5, "list": (1, None), "t": True})',
}


@BOTH
def test_events_and_the_value_given_to_close(language: str) -> None:
    ran = Result(language, TALK[language])
    assert ran.events == [{"kind": "a", "text": "żółw 🐢 \u2028 \0"}]
    assert ran.value == {"n": 1.5, "list": [1, None], "t": True}
    assert (ran.outcome.events, ran.outcome.child_exit_code) == (1, 0)


@BOTH
@pytest.mark.parametrize("source", ["", "1 + 1", "close()", "\ufeffclose()"])
def test_no_value_is_null(language: str, source: str) -> None:
    assert Result(language, source).value is None


FROZEN = {
    "javascript": """
        let threw = [];
        for (const f of [() => { context.a = 2 }, () => { context.deep.list.push(1) }, () => { context.b = 1 },
                         () => { state.get = 1 }, () => { scheduler.more = 1 }]) {
          try { f(); threw.push(false) } catch (error) { threw.push(error instanceof TypeError) }
        }
        close([context, threw])""",
    "python": """
def assign(): context["a"] = 2
def push(): context["deep"]["list"].append(1)
def add(): context["b"] = 1
def replace(): state.get = 1
def extend(): scheduler.more = 1
threw = []
for f in (assign, push, add, replace, extend):
    try:
        f()
        threw.append(False)
    except (TypeError, AttributeError):
        threw.append(True)
close([context, threw])""",
}


@BOTH
def test_the_context_is_given_and_all_is_frozen(language: str) -> None:
    ran = Result(language, FROZEN[language], context={"a": 1, "deep": {"list": [1, {"x": []}]}})
    assert ran.value == [{"a": 1, "deep": {"list": [1, {"x": []}]}}, [True] * 5]


@BOTH
def test_a_context_may_be_deep(language: str) -> None:
    deep = json.loads("[" * 300 + "{}" + "]" * 300)
    source = {"javascript": "close(context.deep)", "python": "close(context['deep'])"}
    assert Result(language, source[language], context={"deep": deep}).value == deep


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("javascript", "const state = 1; const scheduler = 2; close(state + scheduler)"),
        ("python", "state = 1; scheduler = 2; close(state + scheduler)"),
    ],
)
def test_the_agent_may_name_its_own_things_as_it_likes(language: str, source: str) -> None:
    assert Result(language, source).value == 3


STATE = {
    "javascript": """
        const v = {list: [1]};
        state.set("v", v); v.list.push(2); state.get("v").list.push(3); state.set("", 0); state.set("null", null);
        close([state.get("v"), state.get("old"), state.get("none") === undefined, state.get("null"),
               state.delete("old"), state.delete("old"), state.list()])""",
    "python": """
v = {"list": [1]}
state.set("v", v); v["list"].append(2); state.get("v")["list"].append(3); state.set("", 0); state.set("null", None)
close([state.get("v"), state.get("old"), state.get("none") is None and state.get("none", 5) == 5, state.get("null", 5),
       state.delete("old"), state.delete("old"), state.list()])""",
}


@BOTH
def test_the_state_is_kept_and_cloned(language: str) -> None:
    ran = Result(language, STATE[language], state={"old": {"x": 1}})
    assert ran.value == [{"list": [1]}, {"x": 1}, True, None, True, False, ["v", "", "null"]]
    assert ran.state == {"v": {"list": [1]}, "": 0, "null": None}


@BOTH
def test_what_a_turn_did_to_the_state_is_noted_at_its_end_as_the_sum_of_it(language: str) -> None:
    source = (
        'state.set("a", 2); state.set("a", [3]); state.set("b", 1); state.delete("b"); state.delete("c");'
        'state.set("same", "x"); emit({})'
    )
    ran = Result(language, source, state={"a": 1, "c": 1, "same": "x"})
    assert [kind for kind, _ in ran.notes] == ["emit", "state_set", "state_delete"]
    assert [fields for kind, fields in ran.notes if kind != "emit"] == [{"key": "a", "bytes": 3}, {"key": "c"}]
    assert ran.state == {"a": [3], "same": "x"}


@BOTH
@pytest.mark.parametrize("key", ["__proto__", "constructor", "toString", "a\u2028b", "\0", '"\\', "é", "🐢"])
def test_any_text_is_a_key(language: str, key: str) -> None:
    ran = Result(language, f"state.set({json.dumps(key, ensure_ascii=False)}, 5)".replace("\0", "\\0"), state={key: 1})
    assert ran.state == {key: 5}


@BOTH
def test_a_key_is_found_again_whatever_is_in_it(language: str) -> None:
    """The driver, and either language, write the JSON of a text in the same way: a key is compared as JSON."""
    key = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x10000), 0x1F422, 0x10FFFF]))
    source = "const [key] = state.list(); " if language == "javascript" else "(key,) = state.list(); "
    ran = Result(language, source + "state.set(key, 1 + state.get(key)); close(state.delete(key))", state={key: 1})
    assert ran.value is True
    assert ran.state == {}


@BOTH
@pytest.mark.parametrize("call", ["get(5)", "set(5, 1)", "delete([])"])
def test_a_key_is_a_text(language: str, call: str) -> None:
    assert Result(language, caught(language, f"state.{call}")).value == "TypeError"


@pytest.mark.parametrize(
    ("language", "end"), [("javascript", 'throw new Error("no")'), ("python", 'raise ValueError("no")')]
)
def test_a_failed_turn_leaves_the_state_of_the_turn_before(language: str, end: str) -> None:
    ran = Result(language, f'state.set("a", 2); emit({{}}); {end}', state={"a": 1})
    assert isinstance(ran.error, AgentError)
    assert ran.state == {"a": 1}
    assert [kind for kind, _ in ran.notes] == ["emit"]


SUSPENSIONS: Table = {
    "after": {
        "javascript": 'scheduler.sleep(5); emit({kind: "seen"})',
        "python": 'scheduler.sleep(5); emit({"kind": "seen"})',
    },
    "catch": {
        "javascript": 'try { scheduler.sleep(5) } catch { emit({kind: "seen"}) }',
        "python": 'try: scheduler.sleep(5)\nexcept: emit({"kind": "seen"})',
    },
    "catch all": {"python": 'try: scheduler.sleep(5)\nexcept BaseException: emit({"kind": "seen"})'},
    "finally": {
        "javascript": 'try { scheduler.sleep(5) } finally { emit({kind: "seen"}) }',
        "python": 'try: scheduler.sleep(5)\nfinally: emit({"kind": "seen"})',
    },
    "async": {
        "javascript": "async function f() { try { await null; scheduler.sleep(5) } finally { emit({}) } } await f()",
        "python": """
import asyncio
async def f():
    try:
        await asyncio.sleep(0)
        scheduler.sleep(5)
    finally: emit({})
asyncio.run(f())""",
    },
    "generator": {
        "javascript": "function* g() { try { scheduler.sleep(5) } finally { emit({}) } } for (const x of g());",
        "python": "def g():\n  try: yield scheduler.sleep(5)\n  finally: emit({})\nfor x in g(): pass",
    },
    "reaction": {"javascript": "Promise.resolve().then(() => scheduler.sleep(5)).finally(() => emit({})); await 1"},
    "getter": {"javascript": "const o = { get x() { scheduler.sleep(5) } }; try { emit(o) } finally { emit({}) }"},
    "toJSON": {"javascript": "try { emit({ toJSON() { scheduler.sleep(5) } }) } finally { emit({}) }"},
    "with": {
        "python": """
from contextlib import contextmanager
@contextmanager
def held():
    try: yield
    finally: emit({})
with held(): scheduler.sleep(5)"""
    },
    "at exit": {"python": "import atexit\natexit.register(emit, {})\nscheduler.sleep(5)"},
    "finalizer": {"python": "class A:\n  def __del__(self): emit({})\na = A()\nscheduler.sleep(5)"},
    "thread": {
        "python": """
import threading
try: threading.Thread(target=scheduler.sleep, args=(5,)).start()
except RuntimeError: scheduler.sleep(5)
threading.Event().wait()
emit({})"""
    },
    "error's text": {"python": "class E(Exception):\n  def __str__(self): scheduler.sleep(5)\nraise E"},
}


@cases(SUSPENSIONS)
def test_nothing_of_the_agent_runs_after_a_suspension(language: str, source: str) -> None:
    ran = Result(language, source)
    assert ran.request == Sleep(delay_ms=5)
    assert ran.events == []
    assert ran.outcome.child_exit_code == 0


CLOSED = {
    "javascript": """
        close(1);
        const told = [];
        for (const f of [() => close(2), () => emit({}), () => scheduler.sleep(1), () => scheduler.callTool("echo"),
                         () => state.set("a", 1), () => state.get("a"), () => state.delete("a"), () => state.list()]) {
          try { f() } catch (error) { told.push(error.message) }
        }
        throw new Error(told.join())""",
    "python": """
close(1)
told = []
for f in (lambda: close(2), lambda: emit({}), lambda: scheduler.sleep(1), lambda: scheduler.callTool("echo"),
          lambda: state.set("a", 1), lambda: state.get("a"), lambda: state.delete("a"), lambda: state.list()):
    try: f()
    except RuntimeError as error: told.append(str(error))
raise Exception(",".join(told))""",
}


@BOTH
def test_after_close_every_call_fails(language: str) -> None:
    ran = Result(language, CLOSED[language])
    calls = [
        "close",
        "emit",
        "scheduler.sleep",
        "scheduler.callTool",
        *(f"state.{n}" for n in ["set", "get", "delete", "list"]),
    ]
    assert ran.error.message == ",".join(f"{call}: the agent has closed" for call in calls)
    assert ran.events == []


@BOTH
def test_close_does_not_end_the_turn(language: str) -> None:
    ran = Result(language, f"close(1); {'throw 1' if language == 'javascript' else '1 / 0'}")
    assert isinstance(ran.error, AgentError)


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("javascript", "close(typeof scheduler)"),
        ("python", "try: scheduler\nexcept NameError: close('undefined')"),
    ],
)
def test_outside_a_job_there_is_no_scheduler(language: str, source: str) -> None:
    assert Result(language, source, scheduled=False).value == "undefined"
    assert Result(language, source).value != "undefined"


EVENTS = {
    "javascript": ["undefined", "null", "5", "'x'", "[1]", "() => 1", "10n", "{toJSON() { return 5 }}"],
    "python": ["None", "5", "'x'", "[1]", "emit", "[('a', 1)]", "", "{1: 2}", "{'a': [{None: 1}]}", "{(1,): 1}"],
}


@pytest.mark.parametrize(("language", "event"), [(name, event) for name in LANGUAGES for event in EVENTS[name]])
def test_an_event_is_an_object(language: str, event: str) -> None:
    assert Result(language, caught(language, f"emit({event})")).value == "TypeError"


NO_JSON = {
    "javascript": {
        "(() => { const a = {}; a.a = a; return a })()": "TypeError",
        "{n: 10n}": "TypeError",
        "'\\ud800'": "TypeError",
        "['x\\udfff']": "TypeError",
        "{'\\ud800': 1}": "TypeError",
    },
    "python": {
        "(lambda a: a.append(a) or a)([])": "ValueError",
        "(lambda a: a.update(a=a) or a)({})": "ValueError",
        "{1, 2}": "TypeError",
        "[b'x']": "TypeError",
        "{1: 2}": "TypeError",
        "[{True: 2}]": "TypeError",
        "float('nan')": "ValueError",
        "[{'a': (float('-inf'),)}]": "ValueError",
        "'\\ud800'": "ValueError",
        "['x\\udfff']": "ValueError",
        "{'\\ud800': 1}": "ValueError",
    },
}


@pytest.mark.parametrize(("language", "value"), [(name, value) for name in LANGUAGES for value in NO_JSON[name]])
def test_what_has_no_json_form_is_refused(language: str, value: str) -> None:
    seen = "emit({kind: error.name})" if language == "javascript" else "emit({'kind': type(error).__name__})"
    wrap = (
        "try {{ {} }} catch (error) {{ {} }}" if language == "javascript" else "try: {}\nexcept Exception as error: {}"
    )
    calls = [
        f"emit({{'v': {value}}})",
        f"state.set('v', {value})",
        f"close({value})",
        f"scheduler.callTool('t', {value})",
    ]
    ran = Result(language, "\n".join(wrap.format(call, seen) for call in calls))
    assert isinstance(ran.outcome.ending, Completed)
    assert ran.events == [{"kind": NO_JSON[language][value]}] * 4
    assert ran.state == {}


@BOTH
def test_an_escaped_backslash_is_no_surrogate(language: str) -> None:
    assert Result(language, "close('\\\\ud800')").value == "\\ud800"


@BOTH
def test_numbers_go_through_as_written(language: str) -> None:
    numbers = [1e300, 1e21, 0.1, 2147483648, 4294967296, -1.5, 5e-324]
    ran = Result(language, f"close({numbers}); ", context={})
    assert ran.value == numbers


NOTHING_CAUGHT = {
    "javascript": ["throw null", "throw Symbol('s')", "throw new Proxy({}, {get() { throw 1 }})"],
    "python": ["raise SystemExit(0)", "import os, signal; os.kill(os.getpid(), signal.SIGINT)", "raise GeneratorExit"],
}


@pytest.mark.parametrize(("language", "source"), [(name, one) for name in LANGUAGES for one in NOTHING_CAUGHT[name]])
def test_whatever_is_thrown_fails_the_turn(language: str, source: str) -> None:
    ran = Result(language, source)
    assert isinstance(ran.error, AgentError)
    assert ran.outcome.child_exit_code == 1


LONG = {
    "javascript": "throw {name: 'n'.repeat(300), message: 'é'.repeat(3000) + '\\ud800', stack: 's'.repeat(5000)}",
    "python": "raise type('n' * 300, (Exception,), {})('é' * 3000 + '\\ud800')",
}


@BOTH
def test_an_error_is_cut_to_what_is_kept_of_it(language: str) -> None:
    error = Result(language, LONG[language]).error
    assert (error.name, error.message) == ("n" * 200, "é" * 2000)
    assert 3900 < len(error.stack) <= 4000


@pytest.mark.parametrize(
    ("language", "source"),
    [("javascript", "throw new Error('a\\ud800b')"), ("python", "raise Exception('a\\ud800b')")],
)
def test_half_a_surrogate_pair_in_an_error_is_replaced(language: str, source: str) -> None:
    assert Result(language, source).error.message == "a\ufffdb"


@pytest.mark.parametrize(
    ("language", "source", "where"),
    [
        ("javascript", "\n\n  throw new Error('x')", ":3:"),
        ("javascript", "\n let ; = 4", ":2:"),
        ("python", "\n\nraise Exception('x')", 'File "agent.py", line 3'),
        ("python", "\nx = = 4", 'File "agent.py", line 2'),
    ],
)
def test_an_error_says_where(language: str, source: str, where: str) -> None:
    assert where in Result(language, source).error.stack
