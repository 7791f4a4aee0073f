"""What an agent sees, does and cannot do, the same in both languages, in real child processes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cruft_sched.core.awaits import Retry
from cruft_sched.core.outcomes import Ask, BudgetError, CallTool, RequestError, Sleep, SleepUntil
from cruft_sched.core.policy import Budgets
from tests.turns.test_javascript import Result

JS, PY = "javascript", "python"
both = pytest.mark.parametrize("language", [JS, PY])


def run(language: str, javascript: str, python: str, **given: Any) -> Result:
    return Result(javascript if language == JS else python, language=language, **given)


@both
def test_events_and_the_value_given_to_close(language: str) -> None:
    ran = run(
        language,
        'emit({kind: "a", text: "żółw 🐢 \\u2028 \\u0000"}); close({n: 1.5, list: [1, null, true]})',
        'emit({"kind": "a", "text": "żółw 🐢 \\u2028 \\u0000"}); close({"n": 1.5, "list": [1, None, True]})',
    )
    assert ran.events == [{"kind": "a", "text": "żółw 🐢 \u2028 \0"}]
    assert ran.value == {"n": 1.5, "list": [1, None, True]}
    assert (ran.outcome.events, ran.outcome.child_exit_code) == (1, 0)


@both
def test_no_close_is_null(language: str) -> None:
    assert run(language, "1 + 1", "1 + 1").value is None


@both
def test_the_globals_and_the_context_are_frozen(language: str) -> None:
    ran = run(
        language,
        "let n = 0; const tries = [() => { context.a = 2 }, () => { context.deep.list.push(1) },"
        "() => { state.get = 1 }, () => { scheduler.sleep = 1 }];"
        "for (const f of tries) { try { f() } catch (e) { n += e instanceof TypeError } } close([context, n])",
        """
n = 0
def a(): context["a"] = 2
def b(): context["deep"]["list"].append(1)
def c(): state.get = 1
def d(): scheduler.sleep = 1
for f in (a, b, c, d):
    try: f()
    except (TypeError, AttributeError): n += 1
close([context, n])
""",
        context={"a": 1, "deep": {"list": [1]}},
    )
    assert ran.value == [{"a": 1, "deep": {"list": [1]}}, 4]


@both
def test_the_state_is_kept_and_copied(language: str) -> None:
    ran = run(
        language,
        'const v = {list: [1]}; state.set("v", v); v.list.push(2); state.get("v").list.push(3); state.set("", 0);'
        'close([state.get("v"), state.get("old"), state.get("none") ?? null, state.delete("old"), state.delete("old"),'
        "state.list()])",
        """
v = {"list": [1]}
state.set("v", v)
v["list"].append(2)
state.get("v")["list"].append(3)
state.set("", 0)
close([state.get("v"), state.get("old"), state.get("none"), state.delete("old"), state.delete("old"), state.list()])
""",
        state={"old": {"x": 1}},
    )
    assert ran.value == [{"list": [1]}, {"x": 1}, None, True, False, ["v", ""]]
    assert ran.state == {"v": {"list": [1]}, "": 0}
    assert sorted(kind for kind, _ in ran.notes) == ["state_delete", "state_set", "state_set"]


@both
@pytest.mark.parametrize("key", ["__proto__", "constructor", "a\u2028b", "\0", '"', "é", "\x7f"])
def test_any_text_is_a_key(language: str, key: str) -> None:
    text = json.dumps(key)
    source = f"state.set({text}, 5); close(state.get({text}))"
    ran = run(language, source, source, state={key: 1})
    assert (ran.value, ran.state) == (5, {key: 5})


@both
def test_a_failed_turn_leaves_the_state_of_the_turn_before(language: str) -> None:
    ran = run(
        language,
        'state.set("a", 2); throw new Error("no")',
        'state.set("a", 2); raise ValueError("no")',
        state={"a": 1},
    )
    assert ran.state == {"a": 1}
    assert ran.error.message == "no"


TEN_YEARS_MS = 315_576_000_000


@both
@pytest.mark.parametrize(
    ("ms", "delay_ms"), [("0", 0), ("25", 25), ("0.5", 1), ("1e3", 1000), (str(TEN_YEARS_MS),) * 2]
)
def test_sleep(language: str, ms: str, delay_ms: Any) -> None:
    source = f"scheduler.sleep({ms})"
    assert run(language, source, source).request == Sleep(delay_ms=int(delay_ms))


BAD_TIMES = {
    "-1": "-1",
    "NaN": "float('nan')",
    "Infinity": "float('inf')",
    "'5'": "'5'",
    "null": "None",
    "true": "True",
    "[5]": "[5]",
    "315576000001": "315576000001",
}


@both
@pytest.mark.parametrize("ms", BAD_TIMES)
def test_no_sleep(language: str, ms: str) -> None:
    ran = run(
        language,
        f"try {{ scheduler.sleep({ms}) }} catch (e) {{ close(e.name) }}",
        f"try: scheduler.sleep({BAD_TIMES[ms]})\nexcept Exception as e: close(type(e).__name__)",
    )
    assert ran.value == "TypeError"


@both
@pytest.mark.parametrize(
    ("when", "deadline_ms"),
    [
        ("'2030-01-02T03:04:05Z'", 1893553445000),
        ("'2030-01-02T03:04:05'", 1893553445000),
        ("'2030-01-02T05:04:05+02:00'", 1893553445000),
        ("'2030-01-02T03:04:05.250Z'", 1893553445250),
        ("'2030-01-02'", 1893542400000),
        ("1893553445000", 1893553445000),
        ("0", 0),
    ],
)
def test_sleep_until(language: str, when: str, deadline_ms: int) -> None:
    source = f"scheduler.sleepUntil({when})"
    assert run(language, source, source).request == SleepUntil(deadline_ms=deadline_ms)


@both
@pytest.mark.parametrize(
    "when",
    ["'soon'", "-1", "'5'", "'12/31/2030'", "'2026-02-30T00:00:00Z'", "'2026-13-01'", "'2999-01-01'", "[]", "-0.5"],
)
def test_no_sleep_until(language: str, when: str) -> None:
    ran = run(
        language,
        f"try {{ scheduler.sleepUntil({when}) }} catch (e) {{ close(e.name) }}",
        f"try: scheduler.sleep_until({when})\nexcept Exception as e: close(type(e).__name__)",
    )
    assert ran.value == "TypeError"


@both
def test_a_tool_call(language: str) -> None:
    least = run(language, 'scheduler.callTool("echo")', 'scheduler.call_tool("echo")').request
    assert (least.tool, bytes(least.args), least.timeout_ms) == ("echo", b"null", None)
    full = run(
        language,
        'scheduler.callTool("echo", {value: "é"}, {timeout_ms: 5})',
        'scheduler.call_tool("echo", {"value": "é"}, timeout_ms=5)',
    ).request
    assert isinstance(full, CallTool)
    assert (json.loads(bytes(full.args)), full.timeout_ms, full.retry) == ({"value": "é"}, 5, None)


@both
def test_a_tool_call_that_may_be_made_again(language: str) -> None:
    full = run(
        language,
        'scheduler.callTool("echo", 1, {retry: {max_attempts: 3, backoff_ms: 1.5}})',
        'scheduler.call_tool("echo", 1, retry={"max_attempts": 3, "backoff_ms": 1.5})',
    ).request
    assert full.retry == Retry(max_attempts=3, backoff_ms=2)
    least = run(
        language,
        'scheduler.callTool("echo", 1, {retry: {max_attempts: 100}})',
        'scheduler.call_tool("echo", 1, {"retry": {"max_attempts": 100}})',
    ).request
    assert least.retry == Retry(max_attempts=100, backoff_ms=1000)


@both
def test_a_question(language: str) -> None:
    full = run(
        language,
        'scheduler.waitForInput("ok", {a: 1}, {schema: {type: "boolean"}, timeout_ms: 7, on_timeout: "fail"})',
        'scheduler.wait_for_input("ok", {"a": 1}, schema={"type": "boolean"}, timeout_ms=7, on_timeout="fail")',
    ).request
    assert isinstance(full, Ask)
    assert (full.input_kind, json.loads(bytes(full.payload))) == ("ok", {"a": 1})
    assert (full.timeout_ms, full.on_timeout) == (7, "fail")
    assert json.loads(bytes(full.schema)) == {"type": "boolean"}
    least = run(language, 'scheduler.waitForInput("ok")', 'scheduler.waitForInput("ok")').request
    assert (bytes(least.payload), bytes(least.schema)) == (b"null", b"null")
    assert (least.timeout_ms, least.on_timeout) == (None, "resume")


BAD_CALLS = {
    "scheduler.callTool()": "scheduler.call_tool()",
    "scheduler.callTool(5)": "scheduler.call_tool(5)",
    "scheduler.callTool('')": "scheduler.call_tool('')",
    "scheduler.callTool('echo', 1, {retry: 1})": "scheduler.call_tool('echo', 1, retry=1)",
    "scheduler.callTool('echo', 1, {retry: {}})": "scheduler.call_tool('echo', 1, retry={})",
    "scheduler.callTool('echo', 1, {retry: {max_attempts: 0}})": (
        "scheduler.call_tool('echo', 1, retry={'max_attempts': 0})"
    ),
    "scheduler.callTool('echo', 1, {retry: {max_attempts: 101}})": (
        "scheduler.call_tool('echo', 1, retry={'max_attempts': 101})"
    ),
    "scheduler.callTool('echo', 1, {retry: {max_attempts: 1.5}})": (
        "scheduler.call_tool('echo', 1, retry={'max_attempts': 1.5})"
    ),
    "scheduler.callTool('echo', 1, {retry: {max_attempts: 2, backoff_ms: -1}})": (
        "scheduler.call_tool('echo', 1, retry={'max_attempts': 2, 'backoff_ms': -1})"
    ),
    "scheduler.callTool('echo', 1, {retry: {max_attempts: 2, every: 1}})": (
        "scheduler.call_tool('echo', 1, retry={'max_attempts': 2, 'every': 1})"
    ),
    "scheduler.callTool('echo', 1, [1])": "scheduler.call_tool('echo', 1, [1])",
    "scheduler.callTool('echo', 1, {timeout_ms: -1})": "scheduler.call_tool('echo', 1, {'timeout_ms': -1})",
    "scheduler.waitForInput('ok', 1, {on_timeout: 'fail'})": "scheduler.wait_for_input('ok', 1, on_timeout='fail')",
    "scheduler.waitForInput('ok', 1, {timeout_ms: 1, on_timeout: 'x'})": (
        "scheduler.wait_for_input('ok', 1, timeout_ms=1, on_timeout='x')"
    ),
}


@both
@pytest.mark.parametrize("call", BAD_CALLS)
def test_bad_calls_are_the_agents_to_catch(language: str, call: str) -> None:
    ran = run(
        language,
        f"try {{ {call} }} catch (e) {{ close(e.name) }}",
        f"try: {BAD_CALLS[call]}\nexcept Exception as e: close(type(e).__name__)",
    )
    assert ran.value == "TypeError"


@both
def test_what_is_too_large_for_a_wait_is_the_agents_to_catch(language: str) -> None:
    ran = run(
        language,
        'try { scheduler.callTool("echo", "x".repeat(99)) } catch (e) { close(e.name) }',
        'try: scheduler.call_tool("echo", "x" * 99)\nexcept Exception as e: close(type(e).__name__)',
        budgets=Budgets(timeout_ms=10_000, max_tool_arg_bytes=100),
    )
    assert ran.value == ("RangeError" if language == JS else "ValueError")
    fits = run(
        language,
        'scheduler.callTool("echo", "x".repeat(98))',
        'scheduler.call_tool("echo", "x" * 98)',
        budgets=Budgets(timeout_ms=10_000, max_tool_arg_bytes=100),
    )
    assert len(bytes(fits.request.args)) == 100


@both
def test_a_schema_that_cannot_be_checked_fails_the_turn(language: str) -> None:
    ran = run(
        language,
        'scheduler.waitForInput("ok", 1, {schema: {pattern: "a+"}})',
        'scheduler.wait_for_input("ok", 1, schema={"pattern": "a+"})',
    )
    assert isinstance(ran.error, RequestError)
    assert "$.pattern" in ran.error.message


CAUGHT = {
    "catch": (
        'try { scheduler.sleep(5) } catch { emit({kind: "seen"}) }',
        'try: scheduler.sleep(5)\nexcept: emit({"kind": "seen"})',
    ),
    "base": (
        'try { scheduler.sleep(5) } catch (e) { emit({kind: "seen"}) } finally { emit({kind: "seen"}) }',
        'try: scheduler.sleep(5)\nexcept BaseException: emit({"kind": "seen"})\nfinally: emit({"kind": "seen"})',
    ),
    "finally": (
        'try { scheduler.callTool("echo") } finally { emit({kind: "seen"}) }',
        'try: scheduler.call_tool("echo")\nfinally: emit({"kind": "seen"})',
    ),
    "after": (
        'scheduler.waitForInput("x"); emit({kind: "seen"})',
        'scheduler.wait_for_input("x"); emit({"kind": "seen"})',
    ),
    "generator": (
        'function* g() { try { scheduler.sleep(5) } finally { emit({kind: "seen"}) } } for (const x of g());',
        "def g():\n try: yield scheduler.sleep(5)\n finally: emit({})\nfor _ in g(): pass",
    ),
    "async": (
        'async function f() { try { await null; scheduler.sleep(5) } finally { emit({kind: "seen"}) } } await f()',
        "async def f():\n try: scheduler.sleep(5)\n finally: emit({})\ntry: f().send(None)\nfinally: emit({})",
    ),
    "destructor": (
        'emit.call; try { [1].map(() => scheduler.sleep(5)) } finally { emit({kind: "seen"}) }',
        "import atexit\natexit.register(emit, {})\nclass A:\n def __exit__(self, *_): emit({})\n"
        " def __enter__(self): pass\n def __del__(self): emit({})\nwith A(): scheduler.sleep(5)",
    ),
}


@both
@pytest.mark.parametrize("name", CAUGHT)
def test_nothing_of_the_agent_runs_after_a_suspension(language: str, name: str) -> None:
    ran = run(language, *CAUGHT[name])
    assert ran.request is not None
    assert ran.events == []
    assert ran.outcome.child_exit_code == 0


@both
def test_outside_a_job_there_is_no_scheduler(language: str) -> None:
    ran = run(
        language,
        "close(typeof scheduler)",
        'try: scheduler\nexcept NameError: close("undefined")',
        scheduled=False,
    )
    assert ran.value == "undefined"


@both
@pytest.mark.parametrize("event", [("null", "None"), ("5", "5"), ("'x'", "'x'"), ("[1]", "[1]")])
def test_an_event_is_an_object(language: str, event: tuple[str, str]) -> None:
    ran = run(
        language,
        f"try {{ emit({event[0]}) }} catch (e) {{ close(e.name) }}",
        f"try: emit({event[1]})\nexcept Exception as e: close(type(e).__name__)",
    )
    assert ran.value == "TypeError"


@both
def test_what_goes_on_for_ever_is_killed_at_the_wall(language: str) -> None:
    ran = run(
        language,
        "while (true) { try { for (;;); } catch {} }",
        "while True:\n try:\n  while True: pass\n except: pass",
        budgets=Budgets(timeout_ms=200),
    )
    assert isinstance(ran.error, BudgetError)
    assert (ran.error.budget, ran.error.limit) == ("timeout_ms", 200)
