"""A suspension is the last thing that an agent does, however it is wrapped, and whatever the agent has set going."""

from __future__ import annotations

import pytest

from cruft_sched.core.outcomes import CallTool, Completed, Sleep, Suspended
from tests.turns.test_child_process import gone
from tests.turns.test_javascript import Result

SUSPENSIONS = {
    "javascript": {
        "reaction": "Promise.resolve().then(() => scheduler.sleep(5)).finally(() => emit({})); await 1",
        "floating": "async function main() { try { scheduler.sleep(5) } finally { emit({}) } } main()",
        "getter": "const o = { get x() { scheduler.sleep(5) } }; try { emit(o) } finally { emit({}) }",
        "toJSON": "try { emit({ toJSON() { scheduler.sleep(5) } }) } finally { emit({}) }",
        "error's text": "throw { get message() { scheduler.sleep(5) } }",
        "iterator": "for (const x of { [Symbol.iterator]() { scheduler.sleep(5) } }) emit({}); emit({})",
    },
    "python": {
        "context manager": """
from contextlib import contextmanager
@contextmanager
def held():
    try: yield
    finally: emit({})
with held(): scheduler.sleep(5)""",
        "asyncio": """
import asyncio
async def main():
    try:
        await asyncio.sleep(0)
        scheduler.sleep(5)
    finally: emit({})
asyncio.run(main())""",
        "thread": """
import threading
try: threading.Thread(target=scheduler.sleep, args=(5,)).start()
except RuntimeError: scheduler.sleep(5)  # not as root: no thread can be started at all
threading.Event().wait()
emit({})""",
        "error's text": "class E(Exception):\n  def __str__(self): scheduler.sleep(5)\nraise E",
        "key's text": "class K:\n  def __repr__(self): scheduler.sleep(5)\ntry: emit({K(): 1})\nfinally: emit({})",
        "items": "class D(dict):\n  def values(self): scheduler.sleep(5)\ntry: emit(D(a=1))\nfinally: emit({})",
        "signal": """
import os, signal
signal.signal(signal.SIGUSR1, lambda *_: scheduler.sleep(5))
try: os.kill(os.getpid(), signal.SIGUSR1)
finally: emit({})""",
    },
}


NOT_CONFINED = ("asyncio", "signal")
"""What the compartment leaves no agent: a socket pair for an event loop to wake up by, and handlers of signals."""


@pytest.mark.parametrize(("language", "name"), [(one, name) for one in SUSPENSIONS for name in SUSPENSIONS[one]])
def test_nothing_of_the_agent_runs_after_a_suspension(language: str, name: str) -> None:
    isolation = "process" if name in NOT_CONFINED else "strict"
    ran = Result(SUSPENSIONS[language][name], language=language, isolation=isolation)
    assert ran.outcome.ending == Suspended(request=Sleep(delay_ms=5))
    assert ran.events == []
    assert ran.outcome.child_exit_code == 0


def test_what_is_left_for_the_exit_of_an_interpreter_does_not_run() -> None:
    left = "import atexit\natexit.register(emit, {})\nclass A:\n  def __del__(self): emit({})\na = A()\n"
    for end in ("scheduler.sleep(5)", "close(1)", "raise SystemExit"):
        ran = Result(left + end, language="python")
        assert ran.events == []


LEFT_BEHIND = {
    "fork": "pid = os.fork()\nif pid == 0: time.sleep(60)",
    "spawn": 'pid = os.posix_spawn(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)"], {})',
    "subprocess": (
        "import subprocess\n"
        'command = [sys.executable, "-c", "import time; time.sleep(60)"]\n'
        "pid = subprocess.Popen(command, close_fds=False).pid"
    ),
}


@pytest.mark.parametrize("name", LEFT_BEHIND)
@pytest.mark.parametrize("end", ["close()", "scheduler.sleep(5)", "raise SystemExit"])
def test_a_process_that_the_agent_leaves_behind_delays_nothing_and_is_killed(name: str, end: str) -> None:
    refused = "except OSError: pid = 0  # not as root: no process can be started at all\n"
    start = "try:\n" + "".join(f"    {line}\n" for line in LEFT_BEHIND[name].splitlines())
    ran = Result(
        f"import os, sys, time\n{start}{refused}emit({{'pid': pid}})\n{end}", language="python", isolation="process"
    )
    assert type(ran.outcome.ending).__name__ == {"c": "Completed", "s": "Suspended", "r": "Failed"}[end[0]]
    (event,) = ran.events
    assert event["pid"] == 0 or gone(event["pid"])


def test_a_fork_cannot_speak_for_the_turn() -> None:
    source = """
import os
try: pid = os.fork()
except OSError: pid = None
if pid == 0: emit({"from": "the fork"})
if pid: os.waitpid(pid, 0)
emit({"from": "the agent"})"""
    ran = Result(source, language="python", isolation="process")
    assert isinstance(ran.outcome.ending, Completed)
    assert ran.events == [{"from": "the agent"}]


def test_threads_that_speak_at_once_are_all_heard() -> None:
    source = """
import threading
def speak(n):
    for i in range(20): emit({"n": n, "i": i, "text": "x" * 20000})  # more than a pipe takes in one go
threads = [threading.Thread(target=speak, args=(n,)) for n in range(4)]
try:
    for thread in threads: thread.start()
    for thread in threads: thread.join()
except RuntimeError: [speak(n) for n in range(4)]  # not as root: no thread can be started at all
scheduler.call_tool("echo")"""
    ran = Result(source, language="python", isolation="process")
    assert isinstance(ran.request, CallTool)
    assert sorted((event["n"], event["i"]) for event in ran.events) == [(n, i) for n in range(4) for i in range(20)]


def test_a_thread_that_speaks_for_ever_does_not_alter_the_end() -> None:
    source = """
import threading
def speak():
    while True: emit({"text": "x" * 20000})
try: threading.Thread(target=speak).start()
except RuntimeError: pass
state.set("a", 1)"""
    ran = Result(source, language="python", isolation="process")
    assert isinstance(ran.outcome.ending, Completed)
    assert ran.state == {"a": 1}
