"""Notes, `state.reset`, and what is left of the surface after `close`, in both languages."""

from __future__ import annotations

import json

import pytest

from cruft_sched.core.outcomes import RequestError
from cruft_sched.core.policy import Budgets
from tests.turns.test_both_languages import JS, both, run


@both
@pytest.mark.parametrize("value", [None, True, 0, -1.5, "żółw \0", [], [1, [2]], {}, {"kind": "x"}])
def test_a_note_is_any_value(language: str, value: object) -> None:
    text = json.dumps(json.dumps(value))
    ran = run(
        language,
        f"auditNote(JSON.parse({text}))",
        f"import json\naudit_note(json.loads({text})); auditNote(json.loads({text}))",
    )
    noted = [(kind, json.loads(bytes(fields["note"]))) for kind, fields in ran.notes]
    assert noted == [("note", value)] * (1 if language == JS else 2)
    assert ran.outcome.events == 0


@both
def test_what_is_no_value_is_no_note(language: str) -> None:
    ran = run(
        language,
        "let n = 0; for (const v of [undefined, () => 1, 5n, '\\ud800'])"
        "{ try { auditNote(v) } catch (e) { n += e instanceof TypeError } } close(n)",
        """
n = 0
for v in (emit, {1, 2}, {1: 2}, float("nan"), "\\ud800"):
    try: audit_note(v)
    except (TypeError, ValueError): n += 1
close(n)
""",
    )
    assert ran.value == (4 if language == JS else 5)
    assert ran.notes == []


@both
def test_a_note_may_not_be_deep(language: str) -> None:
    fine, deep = "[" * 100 + "]" * 100, "[" * 101 + "]" * 101
    assert run(language, f"auditNote({fine})", f"audit_note({fine})").kinds == ["note"]
    assert isinstance(run(language, f"auditNote({deep})", f"audit_note({deep})").error, RequestError)


@both
def test_a_reset_empties_the_state(language: str) -> None:
    source = 'state.reset(); emit({"keys": state.list()}); state.set("b", 3); state.set("c", 4)'
    ran = run(language, source, source, state={"a": 1, "b": 2, "c": 4})
    assert ran.events == [{"keys": []}]
    assert ran.state == {"b": 3, "c": 4}
    net = [(kind, fields["key"]) for kind, fields in ran.notes if kind.startswith("state_")]
    assert net == [("state_set", "b"), ("state_delete", "a")]


@both
def test_a_reset_makes_room(language: str) -> None:
    source = 'state.reset(); state.set("b", "%s")' % ("x" * 42)
    full = {"a": "x" * 42}
    exact = Budgets(timeout_ms=10_000, max_state_bytes=len('{"b":""}') + 42)
    assert run(language, source, source, state=full, budgets=exact).state == {"b": "x" * 42}


@both
def test_a_reset_of_a_turn_that_fails_is_not_kept(language: str) -> None:
    ran = run(language, "state.reset(); throw 1", "state.reset(); raise ValueError", state={"a": 1})
    assert ran.state == {"a": 1}


JS_CALLS = {
    "close": "close(2)",
    "emit": "emit({})",
    "auditNote": "auditNote(1)",
    "state.get": "state.get('a')",
    "state.set": "state.set('a', 1)",
    "state.delete": "state.delete('a')",
    "state.list": "state.list()",
    "state.reset": "state.reset()",
    "scheduler.sleep": "scheduler.sleep(1)",
    "scheduler.sleepUntil": "scheduler.sleepUntil(1)",
    "scheduler.callTool": "scheduler.callTool('echo')",
    "scheduler.waitForInput": "scheduler.waitForInput('ok')",
}
PY_CALLS = {
    **JS_CALLS,
    "audit_note": "audit_note(1)",
    "callTool": "callTool('echo')",
    "call_tool": "call_tool('echo')",
    "scheduler.sleep_until": "scheduler.sleep_until(1)",
    "scheduler.call_tool": "scheduler.call_tool('echo')",
    "scheduler.wait_for_input": "scheduler.wait_for_input('ok')",
}


@both
def test_after_close_every_call_fails_and_says_so(language: str) -> None:
    calls = JS_CALLS if language == JS else PY_CALLS
    ran = run(
        language,
        "close(1); const told = [];"
        f"for (const f of [{', '.join(f'() => {call}' for call in calls.values())}])"
        "{ try { f(); told.push('open') } catch (e) { told.push(e.name + ' ' + e.message) } }"
        "await callTool('echo').catch(e => told.push(e.name + ' ' + e.message)); throw new Error(told.join('|'))",
        f"close(1)\ntold = []\nfor f in ({', '.join(f'lambda: {call}' for call in calls.values())}):\n"
        "    try: f(); told.append('open')\n"
        "    except Exception as e: told.append(f'{type(e).__name__} {e}')\n"
        "raise ValueError('|'.join(told))",
        state={"a": 5},
    )
    kind = "Error" if language == JS else "RuntimeError"
    names = [*calls, "callTool"] if language == JS else list(calls)
    assert ran.error.message.split("|") == [f"{kind} {name}: the agent has closed" for name in names]
    assert ran.notes == []


@both
def test_after_close_the_turn_still_completes(language: str) -> None:
    ran = run(
        language,
        "close(1); try { state.reset() } catch {} await callTool('echo').catch(() => {})",
        "close(1)\ntry: state.reset()\nexcept RuntimeError: pass",
        state={"a": 5},
    )
    assert (ran.value, ran.state) == (1, {"a": 5})
