"""What goes over the border between an agent and its driver, in both languages: texts, keys, numbers, times, errors."""

from __future__ import annotations

import json

import pytest

from cruft_sched.core.outcomes import Completed, RequestError, SleepUntil
from tests.turns.test_javascript import Result

JS, PY = LANGUAGES = ("javascript", "python")
both = pytest.mark.parametrize("language", LANGUAGES)


def caught(language: str, call: str) -> str:
    """An agent that makes a call, and closes with the name of the error it throws."""
    if language == PY:
        return f"try: {call}\nexcept Exception as error: close(type(error).__name__)"
    return f"try {{ {call} }} catch (error) {{ close(error.name) }}"


@both
def test_a_key_is_found_again_whatever_is_in_it(language: str) -> None:
    """The driver and either language write the JSON of a text in the same way: a key is compared as JSON."""
    key = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x10000), 0x1F422, 0x10FFFF]))
    first = "const [key] = state.list(); " if language == JS else "(key,) = state.list(); "
    source = first + "state.set(key, 1 + state.get(key)); close([state.get(key), state.delete(key)])"
    ran = Result(source, language=language, state={key: 1})
    assert (ran.value, ran.state) == ([2, True], {})


@both
@pytest.mark.parametrize("call", ["get(5)", "set(5, 1)", "delete([])", "get()"])
def test_a_key_is_a_text(language: str, call: str) -> None:
    assert Result(caught(language, f"state.{call}"), language=language).value == "TypeError"


@both
def test_what_a_turn_did_to_the_state_is_noted_at_its_end_as_the_sum_of_it(language: str) -> None:
    source = (
        'state.set("a", 2); state.set("a", [3]); state.set("b", 1); state.delete("b"); state.delete("c");'
        'state.set("same", "x"); emit({})'
    )
    ran = Result(source, language=language, state={"a": 1, "c": 1, "same": "x"})
    assert [kind for kind, _ in ran.notes] == ["emit", "state_set", "state_delete"]
    assert [fields for kind, fields in ran.notes if kind != "emit"] == [{"key": "a", "bytes": 3}, {"key": "c"}]
    assert ran.state == {"a": [3], "same": "x"}


@both
def test_a_context_may_be_deep(language: str) -> None:
    deep = json.loads("[" * 50 + '{"x":' * 50 + "1" + "}" * 50 + "]" * 50)
    source = "close(context.deep)" if language == JS else "close(context['deep'])"
    assert Result(source, language=language, context={"deep": deep}).value == deep
    change = "context.deep[0][0] = 1" if language == JS else "context['deep'][0][0] = 1"
    assert Result(caught(language, change), language=language, context={"deep": deep}).value == "TypeError"


@both
def test_a_value_is_nested_a_hundred_deep_at_most(language: str) -> None:
    grow = {JS: "let d = 1; for (let i = 0; i < %d; i++) d = [d];", PY: "d = 1\nfor i in range(%d): d = [d]\n"}[
        language
    ]
    for call in ("close(d)", "emit({x: d})" if language == JS else "emit({'x': d})", "state.set('d', d)"):
        inner = 99 if call.startswith("emit") else 100
        assert isinstance(Result(grow % inner + call, language=language).outcome.ending, Completed)
        over = Result(grow % (inner + 1) + call, language=language).error
        assert over == RequestError(message="the agent gave a value that is nested more than 100 deep")


@both
def test_a_source_may_begin_with_a_byte_order_mark(language: str) -> None:
    assert Result("\ufeffclose(1)", language=language).value == 1


@both
def test_numbers_go_through_as_written(language: str) -> None:
    numbers = [1e300, 1e21, 0.1, 2147483648, 4294967296, -1.5, 5e-324]
    assert Result(f"close({numbers})", language=language).value == numbers


@both
def test_an_escaped_backslash_is_no_surrogate(language: str) -> None:
    assert Result("close('\\\\ud800')", language=language).value == "\\ud800"


NO_JSON = {
    JS: {
        "(() => { const a = {}; a.a = a; return a })()": "TypeError",
        "{n: 10n}": "TypeError",
        "'\\ud800'": "TypeError",
        "['x\\udfff']": "TypeError",
        "{'\\ud800': 1}": "TypeError",
    },
    PY: {
        "(lambda a: a.append(a) or a)([])": "ValueError",
        "(lambda a: a.update(a=a) or a)({})": "ValueError",
        "{1, 2}": "TypeError",
        "[b'x']": "TypeError",
        "{1: 2}": "TypeError",
        "[{True: 2}]": "TypeError",
        "({'a': [{(1,): 2}]},)": "TypeError",
        "10 ** 4300": "ValueError",
        "float('nan')": "ValueError",
        "[{'a': (float('-inf'),)}]": "ValueError",
        "'\\ud800'": "ValueError",
        "['x\\udfff']": "ValueError",
        "{'\\ud800': 1}": "ValueError",
    },
}


@pytest.mark.parametrize(("language", "value"), [(one, value) for one in LANGUAGES for value in NO_JSON[one]])
def test_what_has_no_json_form_is_refused(language: str, value: str) -> None:
    calls = [f"emit({{'v': {value}}})", f"state.set('v', {value})", f"close({value})"]
    calls += [f"scheduler.callTool('t', {value})", f"scheduler.waitForInput('t', {value})"]
    wrap = "try {{ {} }} catch (error) {{ emit({{kind: error.name}}) }}"
    if language == PY:
        wrap = "try: {}\nexcept Exception as error: emit({{'kind': type(error).__name__}})"
    ran = Result("\n".join(map(wrap.format, calls)), language=language)
    assert isinstance(ran.outcome.ending, Completed)
    assert ran.events == [{"kind": NO_JSON[language][value]}] * 5
    assert ran.state == {}


INSTANTS = {
    "2030-01-02T03:04:05.1239Z": 1893553445123,
    "2030-01-02T03:04:05.123456789Z": 1893553445123,
    "2030-01-02T03:04:05.5": 1893553445500,
    "2030-01-02T03:04Z": 1893553440000,
    "2030-01-02T03:04-05:30": 1893573240000,
    "2028-02-29": 1835395200000,
    "1970-01-01": 0,
}
NO_INSTANTS = [
    *("2030-00-10", "2030-01-00", "2030-13-01", "2026-02-30", "2027-02-29", "2030-04-31T00:00Z", "0000-01-01"),
    *("2030-01-02T24:00:00Z", "2030-01-02T10:60Z", "2030-01-02T10:10:60Z", "2030-01-02T10", "2030-01-02T10Z"),
    *("2030-01-02T10:10+24:00", "2030-01-02T10:10+01", "2030-01-02T10:10+0100", "2030-01-02T10:10+01:60"),
    *("2030-01-02T10:10:10,5Z", "2030-01-02T10:10:10.Z", "2030-01-02T10:10:10.1234567890Z", "2030-01-02Z"),
    *("20300102", "2030-W01-1", "2030-1-2", "+002030-01-02", "2030-01-02 10:00", "2030-01-02t10:00z"),
    *("2030-01-02\\n", " 2030-01-02", "２０３０-01-02", "", "5", "2030", "2030-01", "1969-12-31", "9999-12-31"),
]


@both
@pytest.mark.parametrize("when", INSTANTS)
def test_sleep_until(language: str, when: str) -> None:
    ran = Result(f"scheduler.sleepUntil('{when}')", language=language)
    assert ran.request == SleepUntil(deadline_ms=INSTANTS[when])


@both
def test_no_sleep_until(language: str) -> None:
    calls = [caught(language, f"scheduler.sleepUntil('{when}')").replace("close", "emit") for when in NO_INSTANTS]
    source = "\n".join(calls).replace("emit(error.name)", "emit({kind: error.name})")
    ran = Result(source.replace("emit(type(error).__name__)", "emit({'kind': 'TypeError'})"), language=language)
    assert isinstance(ran.outcome.ending, Completed)
    assert ran.events == [{"kind": "TypeError"}] * len(NO_INSTANTS)


CLOSED = {
    JS: """
        close(1);
        const told = [];
        for (const f of [() => close(2), () => emit({}), () => scheduler.sleep(1), () => scheduler.callTool("echo"),
                         () => state.set("a", 1), () => state.get("a"), () => state.delete("a"), () => state.list()]) {
          try { f() } catch (error) { told.push(error.message) }
        }
        throw new Error(told.join())""",
    PY: """
close(1)
told = []
for f in (lambda: close(2), lambda: emit({}), lambda: scheduler.sleep(1), lambda: scheduler.callTool("echo"),
          lambda: state.set("a", 1), lambda: state.get("a"), lambda: state.delete("a"), lambda: state.list()):
    try: f()
    except RuntimeError as error: told.append(str(error))
raise Exception(",".join(told))""",
}


@both
def test_after_close_every_call_says_that_it_is_closed(language: str) -> None:
    ran = Result(CLOSED[language], language=language)
    calls = ["close", "emit", "scheduler.sleep", "scheduler.callTool"]
    calls += ["state.set", "state.get", "state.delete", "state.list"]
    assert ran.error.message == ",".join(f"{call}: the agent has closed" for call in calls)
    assert (ran.events, ran.state) == ([], {})


LONG = {
    JS: "throw {name: 'n'.repeat(300), message: 'é'.repeat(3000) + '\\ud800', stack: 's'.repeat(5000)}",
    PY: "class E(Exception):\n  __str__ = lambda self: 'é' * 5000 + '\\ud800'\nE.__name__ = 'n' * 300\nraise E",
}


@both
def test_an_error_is_cut_to_what_is_kept_of_it(language: str) -> None:
    error = Result(LONG[language], language=language).error
    assert (error.name, error.message) == ("n" * 200, "é" * 2000)
    assert 3900 < len(error.stack) <= 4000


@both
def test_half_a_surrogate_pair_in_an_error_is_replaced(language: str) -> None:
    source = "throw new Error('a\\ud800b')" if language == JS else "raise Exception('a\\ud800b')"
    assert Result(source, language=language).error.message == "a\ufffdb"
