"""What is Python's alone."""

from __future__ import annotations

from typing import Any

import pytest

from cruft_sched.core.outcomes import AgentError, Failed, SleepUntil
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


def test_print_goes_nowhere() -> None:
    ran = run("import sys\nprint('x'); print('y', file=sys.stderr); close(sys.stdin.read() == '')")
    assert ran.value is True


def test_a_copy_of_the_context_is_the_agents_own() -> None:
    ran = run(
        "import copy\nc = copy.deepcopy(context); c['a']['b'].append(2)\n"
        "d = dict(context); d['x'] = 1; close([c, d, context])",
        context={"a": {"b": [1]}},
    )
    assert ran.value == [{"a": {"b": [1, 2]}}, {"a": {"b": [1]}, "x": 1}, {"a": {"b": [1]}}]


def test_threads_delay_nothing() -> None:
    ran = run("import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\nclose('over')")
    assert ran.value == "over"


def test_a_process_that_the_agent_leaves_behind_is_killed() -> None:
    source = "import os, time\npid = os.fork()\nif pid == 0: time.sleep(60)\nelse: close(pid)"
    ran = run(source, budgets=Budgets(timeout_ms=20_000))
    if isinstance(ran.outcome.ending, Failed):
        assert ran.error.name == "BlockingIOError"  # not as root: no process can be started at all
        return
    assert gone(ran.value)


def test_leaving_by_the_back_door_is_a_failure() -> None:
    assert "without a last message" in str(run("import os\nos._exit(0)").error)
    assert "exited with code 3" in str(run("import os\nos._exit(3)").error)
    assert "killed by signal 9" in str(run("import os\nos.kill(os.getpid(), 9)").error)
