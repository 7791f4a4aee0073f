"""Every budget of a turn, at its limit and just over it, in both languages: what fails, and what the audit log says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cruft_sched.core.outcomes import BudgetError, Completed, Suspended
from cruft_sched.core.policy import Budgets, Policy
from cruft_sched.errors import UnavailableError
from cruft_sched.ops.call_tool import gate_of
from cruft_sched.turns import launcher
from cruft_sched.turns.steps import count_steps
from tests.turns.test_both_languages import JS, PY, both, run
from tests.turns.test_javascript import Result


def bounded(language: str, javascript: str, python: str, state: dict[str, Any] | None = None, **limits: int) -> Result:
    budgets = Budgets(**({"timeout_ms": 10_000} | limits))
    gate = gate_of(Policy(agent="a", audit_log="b", tools=["echo"], budgets=budgets), "u", "r", scheduled=True)
    return run(language, javascript, python, budgets=budgets, gate=gate, state=state or {})


def over(ran: Result, budget: str, limit: int, attempted: int) -> bool:
    """Whether the turn failed of this budget, and its last line says so."""
    assert ran.error == BudgetError(budget=budget, limit=limit, attempted=attempted)
    assert ran.notes[-1] == ("budget_exceeded", {"budget": budget, "limit": limit, "attempted": attempted})
    return ran.kinds.count("budget_exceeded") == 1


COUNTED = {
    "emit": ("emit({i})", 'emit({"i": i})'),
    "note": ("auditNote(i)", "audit_note(i)"),
    "tool_call": ("await callTool('echo', i)", "call_tool('echo', i)"),
    "tool_denial": (
        "await callTool('nope').catch(() => {})",
        "\n    try: call_tool('nope')\n    except ToolError: pass",
    ),
}


@both
@pytest.mark.parametrize("what", COUNTED)
def test_max_events(language: str, what: str) -> None:
    javascript, python = COUNTED[what]
    javascript, python = f"for (let i = 0; i < %d; i++) {javascript}", f"for i in range(%d): {python}"
    fits = bounded(language, javascript % 5, python % 5, max_events=5)
    assert isinstance(fits.outcome.ending, Completed)
    assert fits.kinds.count(what) == 5
    more = bounded(language, javascript % 6, python % 6, max_events=5)
    assert over(more, "max_events", 5, 6)
    assert more.kinds.count(what) == 5


@both
def test_events_notes_and_calls_are_counted_each_by_itself(language: str) -> None:
    ran = bounded(
        language,
        "emit({}); emit({}); auditNote(1); auditNote(1); await callTool('echo'); await callTool('echo')",
        "emit({}); emit({}); audit_note(1); audit_note(1); call_tool('echo'); call_tool('echo')",
        max_events=2,
    )
    assert isinstance(ran.outcome.ending, Completed)
    assert (ran.outcome.events, ran.outcome.tools) == (2, 2)


@both
@pytest.mark.parametrize(("javascript", "python"), [("emit", "emit"), ("auditNote", "audit_note")])
def test_max_event_bytes(language: str, javascript: str, python: str) -> None:
    event = '{"k":"%s"}' % ("é" * 46)
    sources = f"{javascript}({event})", f"{python}({event})"
    fits = bounded(language, *sources, max_event_bytes=100)
    assert isinstance(fits.outcome.ending, Completed)
    assert [json.loads(bytes(value)) for _, fields in fits.notes for value in fields.values()] == [json.loads(event)]
    assert over(bounded(language, *sources, max_event_bytes=99), "max_event_bytes", 99, 100)


STATE = (
    'try { state.set("b", "xy") } catch (e) { emit({kind: e.name}) } close(state.list())',
    'try: state.set("b", "xy")\nexcept Exception as e: emit({"kind": type(e).__name__})\nclose(state.list())',
)


@both
def test_max_state_bytes(language: str) -> None:
    exact = len(json.dumps({"a": 1, "b": "xy"}, separators=(",", ":")))
    fits = bounded(language, *STATE, state={"a": 1}, max_state_bytes=exact)
    assert (fits.value, fits.state) == (["a", "b"], {"a": 1, "b": "xy"})
    assert fits.kinds == ["state_set"]
    more = bounded(language, *STATE, state={"a": 1}, max_state_bytes=exact - 1)
    assert (more.value, more.state) == (["a"], {"a": 1})
    assert more.events == [{"kind": "RangeError" if language == JS else "ValueError"}]
    told = {"budget": "max_state_bytes", "limit": exact - 1, "attempted": exact}
    assert more.notes[0] == ("budget_exceeded", told)
    assert more.kinds == ["budget_exceeded", "emit"]


ARGS = {
    "callTool": ("await callTool('echo', x)", "call_tool('echo', x)"),
    "scheduler.callTool": ("scheduler.callTool('echo', x)", "scheduler.call_tool('echo', x)"),
    "the payload": ("scheduler.waitForInput('ok', x)", "scheduler.wait_for_input('ok', x)"),
    "the schema": (
        "scheduler.waitForInput('ok', 1, {schema: {const: x.slice(10)}})",
        "scheduler.wait_for_input('ok', 1, schema={'const': x[10:]})",
    ),
}


@both
@pytest.mark.parametrize("what", ARGS)
def test_max_tool_arg_bytes(language: str, what: str) -> None:
    javascript, python = ARGS[what]
    sources = (
        f"const x = 'x'.repeat(98); try {{ {javascript} }} catch (e) {{ close(e.name) }}",
        f"x = 'x' * 98\ntry: {python}\nexcept Exception as e: close(type(e).__name__)",
    )
    fits = bounded(language, *sources, max_tool_arg_bytes=100)
    assert isinstance(fits.outcome.ending, Completed if what == "callTool" else Suspended)
    assert "budget_exceeded" not in fits.kinds
    more = bounded(language, *sources, max_tool_arg_bytes=99)
    assert more.value == ("RangeError" if language == JS else "ValueError")
    assert more.notes == [("budget_exceeded", {"budget": "max_tool_arg_bytes", "limit": 99, "attempted": 100})]
    assert more.outcome.tools == 0


@both
def test_what_the_agent_is_told_of_again_and_again_is_noted_so_often_as_an_event_may_be(language: str) -> None:
    ran = bounded(
        language,
        "for (let i = 0; i < 50; i++) { try { state.set('a', 'xxxx') } catch {} }",
        "for i in range(50):\n    try: state.set('a', 'xxxx')\n    except ValueError: pass",
        max_state_bytes=2,
        max_events=3,
    )
    assert ran.value is None
    assert ran.kinds == ["budget_exceeded"] * 3


@both
def test_max_tool_result_bytes(language: str) -> None:
    sources = (
        "close(await callTool('echo', 'x'.repeat(48)).catch(e => [e.name, e.disposition]))",
        "try: close(call_tool('echo', 'x' * 48))\nexcept ToolError as e: close(['ToolError', e.disposition])",
    )
    assert bounded(language, *sources, max_tool_result_bytes=50).value == "x" * 48
    more = bounded(language, *sources, max_tool_result_bytes=49)
    assert more.value == ["ToolError", "error"]
    assert more.kinds == ["tool_call", "tool_error"]


def test_max_microtasks() -> None:
    source = "for (let i = 0; i < 9; i++) await null; emit({})"
    assert bounded(JS, source, "", max_microtasks=11).events == [{}]
    more = bounded(JS, source, "", max_microtasks=10)
    assert over(more, "max_microtasks", 10, 11)
    assert isinstance(bounded(PY, "", "for i in range(99): pass", max_microtasks=1).outcome.ending, Completed)


def test_microtasks_that_beget_microtasks_end() -> None:
    assert over(bounded(JS, "const f = () => Promise.resolve().then(f); f()", ""), "max_microtasks", 100_000, 100_001)


def test_max_steps_of_javascript_are_counted_in_ten_thousands() -> None:
    def counting(turns: int) -> str:
        return f"let n = 0; for (let i = 0; i < {turns}; i++) n += 1; close(n)"

    fits = bounded(JS, counting(9_000), "", max_steps=20_000)  # a turn of this loop is two steps
    assert fits.value == 9_000
    assert over(bounded(JS, counting(16_000), "", max_steps=29_999), "max_steps", 29_999, 30_000)
    assert bounded(JS, counting(16_000), "", max_steps=30_000 + 9_999).value == 16_000


def test_max_steps_of_python_are_lines() -> None:
    source = "n = 0\nfor i in range(10):\n    n += 1\nclose(n)"  # 1 + 11 + 10 + 1
    assert bounded(PY, "", source, max_steps=23).value == 10
    assert over(bounded(PY, "", source, max_steps=22), "max_steps", 22, 23)


ENDLESS = {
    JS: [
        "try { while (true); } catch { emit({}) } finally { emit({}) }",
        "try { (function f() { try { f() } finally { f() } })() } catch {} emit({})",
        "for (;;) { try { emit.call; state.get('a') } catch {} }",
        "async function f() { while (true) await null } await f()",
        "/(a+)+$/.test('a'.repeat(40) + 'b'); emit({})",
        "throw {toString() { while (true); }, get message() { while (true); }}",
    ],
    PY: [
        "n = 0\ntry:\n    while True: n += 1\nexcept BaseException: emit({})\nfinally: emit({})",
        "def f():\n    while True:\n        try: state.get('a')\n        except BaseException: pass\nf()",
        "def g():\n    while True: yield 1\nfor _ in g(): pass",
        "[x for x in iter(int, 1)]",
    ],
}


@pytest.mark.parametrize(("language", "source"), [(name, source) for name in ENDLESS for source in ENDLESS[name]])
def test_what_is_endless_ends_at_its_steps_and_catches_nothing(language: str, source: str) -> None:
    ran = bounded(language, source, source, max_steps=200_000, max_microtasks=1 << 40)
    assert isinstance(ran.error, BudgetError)
    assert (ran.error.budget, ran.error.limit) == ("max_steps", 200_000)
    assert ran.kinds == ["budget_exceeded"]


def test_what_an_error_takes_to_be_told_of_is_no_step() -> None:
    error = bounded(PY, "", "raise ValueError('x')", max_steps=1).error
    assert (error.name, error.message) == ("ValueError", "x")
    assert "line 1" in error.stack


@both
def test_without_max_steps_there_is_no_such_bound(language: str) -> None:
    ran = run(
        language,
        "for (let i = 0; i < 300000; i++); close(1)",
        "import sys\nfor i in range(3000): pass\nclose(1 if sys.gettrace() is None else 2)",
    )
    assert ran.value == 1


def test_steps_that_cannot_be_counted_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    boot = (
        "import sys; sys.path[:0] = sys.argv[3:]; from cruft_sched.turns import engine; word = engine.ctypes.c_uint32;"
        "engine._WORD = engine.ctypes.sizeof(word); from cruft_sched.turns.child import main; main()"
    )
    monkeypatch.setattr(launcher, "_BOOT", boot)
    assert bounded(JS, "close(1)", "").value == 1
    with pytest.raises(UnavailableError, match="max_steps cannot be kept") as refusal:
        bounded(JS, "close(1)", "", max_steps=10_000)
    assert refusal.value.exit_code == 69


def test_an_engine_of_another_layout_is_not_touched() -> None:
    class Other:
        __slots__ = ("context", "runtime")

    with pytest.raises(OSError, match="max_steps cannot be kept"):
        count_steps(Other(), 10_000, lambda _steps: None)


@both
def test_the_wall_is_noted_too(language: str) -> None:
    ran = bounded(language, "while (true);", "while True: pass", timeout_ms=150)
    assert isinstance(ran.error, BudgetError)
    assert ran.notes == [("budget_exceeded", {"budget": "timeout_ms", "limit": 150, "attempted": ran.error.attempted})]


@both
def test_max_rss_mb(language: str) -> None:
    javascript, python = "const a = new Uint8Array(%d << 20); close(a.length)", "a = bytearray(%d << 20); close(len(a))"
    fits = bounded(language, javascript % 28, python % 28, max_rss_mb=32)
    assert fits.value == 28 << 20
    assert over(bounded(language, javascript % 33, python % 50, max_rss_mb=32), "max_rss_mb", 32, 33)
    caught = bounded(
        language,
        "try { new Uint8Array(33 << 20) } catch { close('caught') }",
        "try: bytearray(50 << 20)\nexcept MemoryError: close('caught')",
        max_rss_mb=32,
    )
    assert caught.value == "caught"


@both
def test_timeout_ms(language: str) -> None:
    fits = bounded(language, "close(1)", "close(1)", timeout_ms=20_000)
    assert fits.value == 1
    ran = bounded(language, "for (;;);", "while True: pass", timeout_ms=200)
    assert over(ran, "timeout_ms", 200, ran.error.attempted)
    assert ran.error.attempted >= 200
