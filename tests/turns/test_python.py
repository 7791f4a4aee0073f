"""What is Python's alone."""

from __future__ import annotations

from typing import Any

import pytest

from cruft_sched.core.outcomes import AgentError, BudgetError, Failed, SleepUntil
from cruft_sched.core.policy import Budgets
from tests.turns.test_child_process import gone
from tests.turns.test_javascript import Result


def run(source: str, **given: Any) -> Result:
    return Result(source, language="python", **given)


RAISED = {
    "raise TypeError('boo')": ("TypeError", "boo"),
    "raise SystemExit(0)": ("SystemExit", "0"),
    "raise KeyboardInterrupt": ("KeyboardInterrupt", ""),
    "import sys; sys.exit('bye')": ("SystemExit", "bye"),
    "class E(Exception):\n def __str__(self): raise ValueError\nraise E": ("E", "an error that cannot be shown"),
    "raise ValueError('\\ud800')": ("ValueError", "\ufffd"),
    "def f(): f()\nf()": ("RecursionError", "maximum recursion depth exceeded"),
    "undefined_name": ("NameError", "name 'undefined_name' is not defined"),
    "emit({1: 2})": ("TypeError", "emit: the event has a key that is no str: 1"),
}


@pytest.mark.parametrize("source", RAISED)
def test_what_the_agent_raises_fails_the_turn(source: str) -> None:
    ran = run(source)
    assert isinstance(ran.error, AgentError)
    assert (ran.error.name, ran.error.message) == RAISED[source]
    assert ran.outcome.child_exit_code == 1


def test_an_error_says_where() -> None:
    assert 'File "agent.py", line 3' in run("\n\nraise ValueError('x')").error.stack
    broken = run("\nif True\n    pass").error
    assert broken.name == "SyntaxError"
    assert "line 2" in broken.message


@pytest.mark.parametrize("value", ["float('nan')", "float('inf')", "'\\ud800'", "(a := [], a.append(a))[0]"])
def test_what_has_no_json_form_is_refused(value: str) -> None:
    ran = run(f"for f in (lambda: emit({{'v': {value}}}), lambda: state.set('v', {value}), lambda: close({value})):\n"
              "    try: f()\n    except ValueError: emit({'refused': True})")  # fmt: skip
    assert ran.events == [{"refused": True}] * 3
    assert ran.value is None


def test_datetimes_are_instants() -> None:
    there = "timezone(timedelta(hours=2))"
    aware = f"from datetime import *\nscheduler.sleep_until(datetime(2030, 1, 2, 5, 4, 5, tzinfo={there}))"
    assert run(aware).request == SleepUntil(deadline_ms=1893553445000)
    naive = "from datetime import *\nscheduler.sleep_until(datetime(2030, 1, 2, 3, 4, 5))"
    assert run(naive).request == SleepUntil(deadline_ms=1893553445000)


def test_integers_of_any_size_go_through() -> None:
    ran = run("state.set('n', 10 ** 400); close(state.get('n') == 10 ** 400)")
    assert ran.value is True


def test_the_standard_library_is_there_and_nothing_else() -> None:
    ran = run(
        "import json, re, datetime, math, decimal, sys\n"
        "found = []\n"
        "for name in ('msgspec', 'cruft_sched', 'click', '_quickjs'):\n"
        "    try: __import__(name); found.append(name)\n"
        "    except ImportError: pass\n"
        "close([found, sys.argv, __name__])"
    )
    assert ran.value == [[], ["agent.py"], "__main__"]


def printed(ran: Result) -> list[tuple[str, str]]:
    return [(fields["stream"], fields["text"]) for kind, fields in ran.notes if kind == "agent_output"]


@pytest.mark.parametrize("end", ["close(sys.stdin.read() == '')", "scheduler.sleep(5)", "raise SystemExit"])
def test_what_is_printed_is_noted_line_by_line(end: str) -> None:
    ran = run(f"import sys\nprint('x', 1); print('y', file=sys.stderr); sys.stdout.write('rest'); {end}")
    assert printed(ran) == [("stdout", "x 1\n"), ("stderr", "y\n"), ("stdout", "rest")]


def test_what_is_printed_is_any_text_or_bytes() -> None:
    ran = run(
        "import sys\nprint('\\ud800 é \\u202e')\nsys.stdout.buffer.write(b'\\xff\\n')\nsys.stderr.close()\nclose(1)"
    )
    assert printed(ran) == [("stdout", "\\ud800 é \u202e\n"), ("stdout", "\ufffd\n")]
    assert ran.value == 1


def test_what_is_printed_is_cut_and_that_is_said_once() -> None:
    flood = run("for i in range(100): print('é' * 10000)\nclose(1)")
    assert (64 << 10) - 3 < sum(len(text.encode()) for _, text in printed(flood)) <= 64 << 10
    assert [fields.get("truncated") for _, fields in flood.notes][-2:] == [None, True]
    lines = run("for i in range(100): print(i)\nclose(1)", budgets=Budgets(timeout_ms=10_000, max_events=10))
    assert printed(lines) == [("stdout", f"{i}\n") for i in range(10)] + [("stdout", "")]
    assert lines.notes[-1][1]["truncated"]


def test_a_copy_of_the_context_is_the_agents_own() -> None:
    ran = run(
        "import copy\nc = copy.deepcopy(context); c['a']['b'].append(2)\n"
        "d = dict(context); d['x'] = 1; close([c, d, context])",
        context={"a": {"b": [1]}},
    )
    assert ran.value == [{"a": {"b": [1, 2]}}, {"a": {"b": [1]}, "x": 1}, {"a": {"b": [1]}}]


def test_threads_delay_nothing() -> None:
    ran = run(
        "import threading, time\n"
        "try: threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "except RuntimeError: pass  # not as root: no thread can be started at all\n"
        "close('over')",
        isolation="process",
    )
    assert ran.value == "over"


def test_a_process_that_the_agent_leaves_behind_is_killed() -> None:
    source = "import os, time\npid = os.fork()\nif pid == 0: time.sleep(60)\nelse: close(pid)"
    ran = run(source, budgets=Budgets(timeout_ms=20_000), isolation="process")
    if isinstance(ran.outcome.ending, Failed):
        assert ran.error.name == "BlockingIOError"  # not as root: no process can be started at all
        return
    assert gone(ran.value)


def test_leaving_by_the_back_door_is_a_failure() -> None:
    assert "without a last message" in str(run("import os\nos._exit(0)").error)
    assert "exited with code 3" in str(run("import os\nos._exit(3)").error)
    assert "killed by signal 9" in str(run("import os\nos.kill(os.getpid(), 9)", isolation="process").error)


@pytest.mark.parametrize(
    "change",
    [
        *("c['a'] = 2", "c['new'] = 2", "del c['a']", "c |= {}", "c.clear()", "c.pop('a')", "c.popitem()"),
        *("c.setdefault('b', 1)", "c.update(a=2)", "c.__init__(a=2)", "l[0] = 2", "l[:] = []", "del l[0]", "l += [2]"),
        *("l *= 2", "l.append(2)", "l.extend([2])", "l.insert(0, 2)", "l.pop()", "l.remove(1)", "l.reverse()"),
        *("l.sort()", "l.clear()", "l.__init__([2])", "c.more = 1", "l.more = 1"),
    ],
)
def test_the_context_cannot_be_changed(change: str) -> None:
    source = "import json\nc = context['c']; l = c['l'][0]\ntry: %s\nexcept (TypeError, AttributeError): emit({})\n"
    ran = run(source % change + "close([context == json.loads(json.dumps(context)), context])", context={"c": CONTEXT})
    assert ran.value == [True, {"c": CONTEXT}]
    assert ran.events == [{}]


CONTEXT = {"a": 1, "l": [[1, 3]]}


def test_options_come_in_a_dict_or_as_keywords() -> None:
    in_a_dict = (
        "scheduler.waitForInput('k', None, {'schema': {'type': 'string'}, 'timeout_ms': 5, 'on_timeout': 'fail'})"
    )
    as_keywords = "scheduler.wait_for_input('k', schema={'type': 'string'}, timeout_ms=5, on_timeout='fail')"
    mixed = "scheduler.wait_for_input('k', options={'schema': {'type': 'string'}, 'timeout_ms': 5}, on_timeout='fail')"
    asked = [run(source).request for source in (in_a_dict, as_keywords, mixed)]
    assert [(ask.timeout_ms, ask.on_timeout, bytes(ask.schema)) for ask in asked] == [
        (5, "fail", b'{"type":"string"}')
    ] * 3


def test_none_is_an_option_that_is_not_given() -> None:
    ran = run("scheduler.call_tool('echo', None, {'timeout_ms': None}, timeout_ms=7)")
    assert ran.request.timeout_ms == 7
    assert (
        run("scheduler.wait_for_input('k', schema=None, timeout_ms=None, on_timeout=None)").request.timeout_ms is None
    )


@pytest.mark.parametrize(
    "call",
    [
        "call_tool('echo', 1, {'timeout_ms': 5}, timeout_ms=5)",
        "call_tool('echo', retry=1)",
        "call_tool('echo', options={1: 2})",
        "call_tool('echo', options='x')",
        "call_tool('echo', timeout_ms=True)",
        "wait_for_input('k', on_timeout=['fail'], timeout_ms=1)",
        "sleep()",
        "sleep(1, 2)",
        "sleep(5j)",
        "sleep(__import__('decimal').Decimal(5))",
        "sleep_until(__import__('datetime').date(2030, 1, 2))",
        "sleep_until(True)",
        "sleep_until(10 ** 400)",
        "sleep_until(__import__('datetime').datetime.max)",
    ],
)
def test_a_wrong_call_is_a_type_error_that_names_it(call: str) -> None:
    ran = run(f"try: scheduler.{call}\nexcept TypeError as error: close(str(error))")
    assert ran.value.startswith(f"scheduler.{call.partition('(')[0]}")


def test_the_agent_is_a_module_like_any_other() -> None:
    ran = run("""
import dataclasses, pickle, sys
@dataclasses.dataclass
class Point:
    x: int
def f(x: int): ...
assert sys.modules["__main__"].Point is Point
if __name__ == "__main__":
    close([pickle.loads(pickle.dumps(Point(3))).x, f.__annotations__["x"] is int, str(Point)])
""")
    assert ran.value == [3, True, "<class '__main__.Point'>"]


def test_its_own_tracebacks_quote_its_lines() -> None:
    ran = run("import traceback\ntry: 1 / 0  # here\nexcept Exception: close(traceback.format_exc())")
    assert "try: 1 / 0  # here" in ran.value


def test_an_error_shows_its_causes_and_no_file_of_this_machine() -> None:
    stack = run(
        "import json\ntry: json.loads('{')\nexcept ValueError as error: raise KeyError('k') from error"
    ).error.stack
    assert "JSONDecodeError: Expecting property name" in stack
    assert "direct cause" in stack
    assert stack.endswith("KeyError: 'k'\n")
    assert {line.strip().split(",")[0] for line in stack.splitlines() if "File" in line} == {'File "agent.py"'}


def test_an_error_among_others_is_shown_without_the_files_of_this_machine() -> None:
    stack = run("import json\ntry: json.loads('{')\nexcept ValueError as e: raise ExceptionGroup('g', [e])").error.stack
    assert "JSONDecodeError" in stack
    assert "decoder.py" not in stack


def test_nothing_of_ours_is_in_the_agents_namespace() -> None:
    ran = run("close([[n for n in globals() if n[0] != '_'], hasattr(emit, '__self__'), dir(scheduler)[-7:]])")
    names, bound, waits = ran.value
    calls = ["emit", "call_tool", "callTool", "audit_note", "auditNote", "close"]
    assert names == ["context", "state", *calls, "ToolError", "importValue", "import_value", "scheduler"]
    assert not bound
    assert waits == ["callTool", "call_tool", "sleep", "sleepUntil", "sleep_until", "waitForInput", "wait_for_input"]


def test_the_memory_budget_is_the_agents_own_and_can_be_caught() -> None:
    source = "try: x = bytearray({} << 20)\nexcept MemoryError: close('refused')"
    small = Budgets(timeout_ms=20_000, max_rss_mb=32)
    assert run(source.format(28), budgets=small).value is None
    assert run(source.format(64), budgets=small).value == "refused"


def test_a_memory_that_is_full_to_the_brim_is_told_of() -> None:
    ran = run("a = []\nwhile True: a.append([0])", budgets=Budgets(timeout_ms=60_000, max_rss_mb=32))
    assert ran.error == BudgetError(budget="max_rss_mb", limit=32, attempted=33)


def test_what_the_agent_does_to_the_library_changes_nothing_for_the_driver() -> None:
    ran = run("""
import json, sys, time, traceback
json.dumps = json.loads = json.encoder.c_make_encoder = None
traceback.TracebackException = None
sys.stdout = sys.stderr = None
time.time = None
sys.path.clear()
state.set("a", [1]); emit({"kind": "fine"})
raise ValueError("x")
""")
    assert ran.events == [{"kind": "fine"}]
    assert (ran.error.name, ran.error.message, ran.error.stack) == ("ValueError", "x", "")
