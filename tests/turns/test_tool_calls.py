"""`callTool` within a turn, in both languages: what the agent gets, and what the audit log keeps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from cruft_sched.core.outcomes import AgentError, BudgetError, Stopped
from cruft_sched.core.policy import Budgets, Policy
from cruft_sched.core.sealing import digest
from cruft_sched.ops.call_tool import gate_of
from cruft_sched.tools import registry
from cruft_sched.tools.tool import Call, Tool, as_json
from tests.turns.test_both_languages import JS, both, run
from tests.turns.test_javascript import Result

TOOLS = ["echo", "fail", "slow"]

JS_TELL = """
async function tell(...call) {
  try { return ["ok", await callTool(...call)] } catch (e) {
    return [e.name, e.message, e.disposition ?? null, e.tool ?? null, e.timeout_ms ?? null, e.duration_ms ?? null]
  }
}
"""
PY_TELL = """
def tell(*call):
    try: return ["ok", call_tool(*call)]
    except ToolError as e: return ["ToolError", str(e), e.disposition, e.tool, e.timeout_ms, e.duration_ms]
    except Exception as e: return [type(e).__name__, str(e)] + [None] * 4
"""


def calling(language: str, javascript: str, python: str, scheduled: bool = True, **given: Any) -> Result:
    """A turn with tools, and with `tell`, which makes a value of whatever comes of a call."""
    budgets = given.pop("budgets", Budgets(timeout_ms=10_000))
    policy = Policy(agent="a", audit_log="b", tools=given.pop("tools", TOOLS), budgets=budgets)
    gate = gate_of(policy, "uid", "job/turn-1", scheduled=scheduled)
    return run(
        language, JS_TELL + javascript, PY_TELL + python, scheduled=scheduled, budgets=budgets, gate=gate, **given
    )


def told(language: str, *call: Any, **given: Any) -> tuple[Any, Result]:
    """What one call comes to."""
    source = f"({', '.join(json.dumps(part) for part in call)})".replace("null", "None")
    ran = calling(language, f"close(await tell{source.replace('None', 'null')})", f"close(tell{source})", **given)
    return ran.value, ran


def fields(ran: Result, kind: str) -> dict[str, Any]:
    """The one line of a kind."""
    (found,) = [fields for noted, fields in ran.notes if noted == kind]
    return {name: json.loads(bytes(value)) if isinstance(value, Raw) else value for name, value in found.items()}


@both
@pytest.mark.parametrize("value", [{"a": [1.5, "żółw \\0 \u2028", {}]}, [], "", "x", 5])
def test_a_tool_answers(language: str, value: Any) -> None:
    answer, ran = told(language, "echo", value)
    assert answer == ["ok", value]
    assert ran.kinds == ["tool_call", "tool_result"]
    assert fields(ran, "tool_call") == {"tool": "echo", "args": value}
    assert fields(ran, "tool_result") == {"tool": "echo", "result": value}
    assert (ran.outcome.tools, ran.outcome.events) == (1, 0)


@both
def test_a_call_without_arguments_has_null(language: str) -> None:
    answer, ran = told(language, "echo")
    assert answer == ["ok", None]
    assert fields(ran, "tool_call") == {"tool": "echo", "args": None}


@both
def test_a_tool_that_fails(language: str) -> None:
    message = "the tool fail always fails"
    answer, ran = told(language, "fail")
    assert answer == ["ToolError", message, "error", "fail", None, None]
    assert ran.kinds == ["tool_call", "tool_error"]
    assert ran.outcome.tools == 1


@both
def test_a_tool_that_takes_too_long(language: str) -> None:
    answer, ran = told(language, "slow", {"delay_ms": 86_400_000}, {"timeout_ms": 5})
    assert answer == ["ToolError", "slow was not done after 5 ms", "timeout", "slow", 5, 86_400_000]
    assert ran.kinds == ["tool_call", "tool_timeout"]


@both
def test_a_policy_bounds_the_time_of_a_tool(language: str) -> None:
    short = Budgets(timeout_ms=10_000, tool_timeout_ms=7)
    answer, _ = told(language, "slow", {"delay_ms": 86_400_000}, {"timeout_ms": 60_000}, budgets=short)
    assert answer[4] == 7


@both
def test_arguments_that_the_tool_does_not_take(language: str) -> None:
    answer, ran = told(language, "slow", {"delay_ms": "5"})
    assert answer[:2] == ["TypeError", "the arguments of slow are refused: $.delay_ms: does not hold to type 'integer'"]
    assert ran.kinds == ["tool_call", "tool_invalid_args"]


@both
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("echo", 'tool "echo" is not allowed by policy'),
        ("shell", 'tool "shell" is not allowed by policy'),
        ("npm.metadata", 'tool "npm.metadata" is not available'),
    ],
)
def test_a_denial_is_an_error_and_the_turn_goes_on(language: str, name: str, message: str) -> None:
    answer, ran = told(language, name, {"a": 1}, tools=["npm.metadata"])
    assert answer == ["ToolError", message, "denied", name, None, None]
    assert ran.kinds == ["tool_denial"]
    assert fields(ran, "tool_denial") == {"tool": name, "args": {"a": 1}, "message": message}
    assert ran.outcome.tools == 0


@both
@pytest.mark.parametrize("scheduled", [True, False])
def test_a_job_reaches_only_tools_that_read(language: str, scheduled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str] = []

    def write(call: Call) -> Raw:
        keys.append(call.idempotency_key)
        return as_json("written")

    monkeypatch.setattr(registry, "catalogue", lambda: {"echo": Tool(run=write, effect="write")})
    ran = calling(
        language,
        "close([await tell('echo', 1), await tell('echo', 1)])",
        "close([tell('echo', 1), tell('echo', 1)])",
        scheduled=scheduled,
    )
    if scheduled:
        assert [answer[2] for answer in ran.value] == ["denied"] * 2
        assert keys == []
    else:
        assert ran.value == [["ok", "written"]] * 2
        assert len(set(keys)) == 2


BAD_CALLS = {
    "": "",
    "5": "5",
    "''": "''",
    "'x'.repeat(201)": "'x' * 201",
    "'echo', 1, [1]": "'echo', 1, [1]",
    "'echo', 1, {retry: 1}": "'echo', 1, {'retry': 1}",
    "'echo', 1, {timeout_ms: -1}": "'echo', 1, {'timeout_ms': -1}",
    "'echo', 1, {timeout_ms: '5'}": "'echo', 1, {'timeout_ms': '5'}",
    "'echo', () => 1": "'echo', emit",
    "'echo', 10n": "'echo', {1: 2}",
}


@both
@pytest.mark.parametrize("call", BAD_CALLS)
def test_a_wrong_call_is_a_type_error_and_nothing_is_called(language: str, call: str) -> None:
    ran = calling(language, f"close(await tell({call}))", f"close(tell({BAD_CALLS[call]}))")
    assert ran.value[0] == "TypeError"
    assert ran.notes == []


def test_javascript_gets_a_promise_whatever_is_wrong() -> None:
    source = """
    const promises = [callTool("echo"), callTool("fail"), callTool(5), callTool("echo", 10n)];
    close([promises.every(p => p instanceof Promise), (await Promise.allSettled(promises)).map(s => s.status)])
    """
    assert calling(JS, source, "").value == [True, ["fulfilled", "rejected", "rejected", "rejected"]]


def test_python_takes_options_as_keywords_too() -> None:
    ran = calling(
        "python",
        "",
        "try: callTool('slow', {'delay_ms': 99}, timeout_ms=5)\nexcept ToolError as e: close(e.timeout_ms)",
    )
    assert ran.value == 5


@both
def test_an_error_that_nobody_handles_fails_the_turn(language: str) -> None:
    error = calling(language, "await callTool('fail')", "call_tool('fail')").error
    assert isinstance(error, AgentError)
    assert (error.name, error.message) == ("ToolError", "the tool fail always fails")


@both
def test_outside_a_job_there_are_tools_too(language: str) -> None:
    answer, _ = told(language, "echo", 5, scheduled=False)
    assert answer == ["ok", 5]


@both
def test_a_tool_that_raises_is_an_error(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_call: Call) -> Raw:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(registry, "catalogue", lambda: {"echo": Tool(run=broken)})
    answer, _ = told(language, "echo")
    assert answer == ["ToolError", "ZeroDivisionError: oops", "error", "echo", None, None]


@both
def test_what_is_large_goes_through_whole_and_into_the_log_by_its_hash(language: str) -> None:
    size = 700_000
    budgets = Budgets(timeout_ms=10_000, max_tool_arg_bytes=1 << 20)
    ran = calling(
        language,
        f"const x = 'ab'.repeat({size // 2}); close((await callTool('echo', x)) === x)",
        f"x = 'ab' * {size // 2}; close(call_tool('echo', x) == x)",
        budgets=budgets,
    )
    assert ran.value is True
    data = json.dumps("ab" * (size // 2)).encode()
    assert fields(ran, "tool_call") == {"tool": "echo", "args_bytes": size + 2, "args_hash": digest(data)}
    assert fields(ran, "tool_result") == {"tool": "echo", "result_bytes": size + 2, "result_hash": digest(data)}


@both
def test_the_time_of_a_tool_is_the_turns_own(language: str) -> None:
    call = '"slow", {"delay_ms": 60000}, {"timeout_ms": 30000}'
    ran = calling(
        language,
        f"try {{ await callTool({call}) }} finally {{ emit({{}}) }}",
        f"try: call_tool({call})\nfinally: emit({{}})",
        budgets=Budgets(timeout_ms=250),
    )
    assert isinstance(ran.error, BudgetError)
    assert (ran.error.budget, ran.error.limit, ran.outcome.child_exit_code) == ("timeout_ms", 250, 137)
    assert 250 <= ran.error.attempted < 5_000
    assert ran.kinds == ["tool_call", "budget_exceeded"]


@both
def test_a_turn_that_is_told_to_stop_gives_its_tool_up(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    performing: list[Call] = []

    def slow(call: Call) -> Raw:
        performing.append(call)
        call.pause(60_000)
        return as_json("late")

    def stop() -> Stopped | None:
        return Stopped(reason="cancelled") if performing else None

    monkeypatch.setattr(registry, "catalogue", lambda: {"echo": Tool(run=slow)})
    ran = calling(language, "await callTool('echo'); emit({})", "call_tool('echo'); emit({})", stop=stop)
    assert ran.outcome.ending == Stopped(reason="cancelled")
    assert ran.kinds == ["tool_call"]


def test_changed_builtins_change_nothing_of_a_call() -> None:
    ran = calling(
        JS,
        """
        const P = Promise;
        globalThis.Promise = function () { throw 1 }; P.resolve = P.reject = () => { throw 2 };
        JSON.parse = JSON.stringify = () => "no"; Object.defineProperty = Object.keys = null;
        Array.prototype[Symbol.iterator] = function* () { yield "no" };
        Object.prototype.error = {message: "no"}; Object.prototype.disposition = "no"; Object.prototype.tool = "no";
        globalThis.Error = globalThis.TypeError = null; String.prototype.concat = null;
        let error; try { await callTool("nope", {}) } catch (e) { error = e }
        close([await callTool("echo", {a: 1}), error.name, error.disposition, error.tool])
        """,
        "",
    )
    assert ran.value == [{"a": 1}, "ToolError", "denied", "nope"]
