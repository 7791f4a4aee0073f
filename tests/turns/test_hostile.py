"""Agents that mean harm: each ends in a failed turn, and the driver's memory stays flat."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from cruft_sched.core.outcomes import BudgetError, ChildError
from cruft_sched.core.policy import Budgets
from tests.turns.test_javascript import Result

SHORT = Budgets(timeout_ms=500, max_rss_mb=64)

AT_THE_WALL = {
    "javascript": {
        "a loop in a catch": "for (;;) { try { for (;;); } catch {} }",
        "the stack of an error": "const e = Error(); Object.defineProperty(e, 'stack', {get() { for (;;); }}); throw e",
        "the message of an error": "throw {get message() { for (;;); }}",
        "toJSON": "emit({toJSON() { for (;;); }})",
        "a getter": "emit({get a() { for (;;); }})",
        "a proxy": "emit(new Proxy({}, {ownKeys() { for (;;); }}))",
        "an array that ends nowhere": "emit({a: new Proxy([], {get: (t, k) => k === 'length' ? 2 ** 40 : 1})})",
        "a regular expression": "/^(a+)+$/.test('a'.repeat(60) + 'b')",
        "a square of built-ins": "const s = 'a'.repeat(1 << 20); for (;;) s.lastIndexOf('ab')",
        "a rejection's toString": "Promise.reject({toString() { for (;;); }})",
        "a then": "await {then() { for (;;); }}",
    },
    "python": {
        "a loop in a catch": "while True:\n try:\n  while True: pass\n except: pass",
        "the text of an error": "class E(Exception):\n def __str__(self):\n  while True: pass\nraise E",
        "the name of an error": (
            "class M(type):\n @property\n def __name__(self):\n  while True: pass\n"
            "class E(Exception, metaclass=M): pass\nraise E"
        ),
        "a key's text": "class K:\n def __repr__(self):\n  while True: pass\nemit({K(): 1})",
        "items": "class D(dict):\n def values(self):\n  while True: pass\nemit(D(a=1))",
        "a regular expression": "import re\nre.match(r'^(a+)+$', 'a' * 60 + 'b')",
        "a large power": "10 ** 10 ** 8",
        "its pipes closed": (
            "import os\nfor fd in range(3, 16):\n try: os.close(fd)\n except OSError: pass\nwhile True: pass"
        ),
        "a sleep": "import time\ntime.sleep(60)",
        "the end of the interpreter": "import sys\nsys.exit = None\nclass A:\n def __del__(self):\n  while True: pass\n"
        "a = A()\ndel a",
        "a message that has no end": "import os\nos.write(fd, b'{')\nwhile True: pass",
    },
}
FIND_PIPE = """
import os
def is_pipe(fd):
    try: return os.write(fd, b"") == 0
    except OSError: return False
fd = next(fd for fd in range(3, 256) if is_pipe(fd))
"""
"""What an agent does to find the way its messages take, past the functions it is given."""


@pytest.mark.parametrize(("language", "name"), [(one, name) for one in AT_THE_WALL for name in AT_THE_WALL[one]])
def test_what_never_ends_is_killed_at_the_wall(language: str, name: str) -> None:
    source = (FIND_PIPE if language == "python" else "") + AT_THE_WALL[language][name]
    ran = Result(source, language=language, budgets=SHORT)
    assert isinstance(ran.error, BudgetError)
    assert (ran.error.budget, ran.error.limit, ran.outcome.child_exit_code) == ("timeout_ms", 500, 137)
    assert ran.error.attempted >= 500


DEATHS = {
    "leaving": ("import os; os._exit(0)", "ended without a last message"),
    "leaving with a code": ("import os; os._exit(7)", "exited with code 7"),
    "a fault in memory": ("import ctypes; ctypes.string_at(1)", "killed by signal 11"),
    "half a message": (
        "import os\nos.write(fd, b'{\"ty')\nos._exit(0)",
        "middle",
    ),
    "a message of nobody's": ("import os\nos.write(fd, b'hi\\n')", "protocol"),
    "an end of its own, and a death": (
        'import os\nos.write(fd, b\'{"type":"complete","result":1}\\n\')\nos._exit(3)',
        "exited with code 3",
    ),
    "a second ready": (
        'import os\nready = b\'{"type":"ready","level":{"isolation":"process"}}\\n\'\nos.write(fd, ready)',
        "out of order",
    ),
}


@pytest.mark.parametrize("name", DEATHS)
def test_a_death_is_a_failure(name: str) -> None:
    source, said = DEATHS[name]
    ran = Result(FIND_PIPE + source, language="python", budgets=Budgets(timeout_ms=20_000))
    assert isinstance(ran.error, ChildError)
    assert said in ran.error.message


RECURSION = {
    "javascript": "function f() { return f() + 1 }\nf()",
    "python": "def f(): return f() + 1\nf()",
}


@pytest.mark.parametrize("language", RECURSION)
def test_deep_recursion_is_the_agents_own_error(language: str) -> None:
    error = Result(RECURSION[language], language=language, budgets=Budgets(timeout_ms=20_000)).error
    assert error.name in ("RangeError", "InternalError", "RecursionError")


BOMBS = {
    "javascript": {
        "arrays": "const a = []; for (;;) a.push(new Array(1000).fill(1))",
        "a string": "let s = 'x'; for (;;) s += s + s",
        "buffers": "const a = []; for (;;) a.push(new Uint8Array(1 << 20))",
        "big integers": "let n = 3n; for (;;) n *= n",
    },
    "python": {
        "lists": "a = []\nwhile True: a.append([0] * 1000)",
        "a text": "s = 'x'\nwhile True: s += s + s",
        "buffers": "a = []\nwhile True: a.append(bytearray(1 << 20))",
        "one buffer": "bytearray(1 << 40)",
        "a map of memory": "import mmap\na = []\nwhile True: a.append(mmap.mmap(-1, 1 << 24))",
    },
}


@pytest.mark.parametrize(("language", "name"), [(one, name) for one in BOMBS for name in BOMBS[one]])
def test_a_memory_bomb_fails_the_turn(language: str, name: str) -> None:
    ran = Result(BOMBS[language][name], language=language, budgets=Budgets(timeout_ms=20_000, max_rss_mb=64))
    assert ran.error is not None


FLOODS = {
    "events": ("javascript", "for (;;) emit({text: 'x'.repeat(60000)})"),
    "states": ("javascript", "for (let i = 0; ; i++) state.set('k', 'x'.repeat(200000) + i)"),
    "errors": ("javascript", "throw Error('x'.repeat(1 << 24))"),
    "bytes": ("python", "import os\nwhile True: os.write(fd, b'x' * 65536)"),
    "lines": ("python", "import os\nwhile True: os.write(fd, b'x\\n' * 32768)"),
    "messages": ("python", 'import os\nwhile True: os.write(fd, b\'{"type":"state_delete","key":"x"}\\n\' * 1000)'),
    "prints": ("python", "while True: print('x' * 65536)"),
}
_DRIVER = """
import json, resource, sys
from cruft_sched.core.policy import Budgets
from cruft_sched.turns.turn import Turn, run_turn
def run(source, language):
    budgets = Budgets(timeout_ms=1500)
    turn = Turn(source=source, context={}, state={}, budgets=budgets, language=language, scheduled=True)
    return run_turn(turn, lambda kind, fields: None)
run(b"emit({})", "javascript"); run(b"emit({})", "python")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
outcome = run(sys.argv[1].encode(), sys.argv[2])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([type(outcome.ending).__name__, after - before]))
"""


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_ends_and_leaves_the_drivers_memory_flat(name: str) -> None:
    language, source = FLOODS[name]
    arguments = (FIND_PIPE + source if language == "python" else source, language)
    ran = subprocess.run([sys.executable, "-c", _DRIVER, *arguments], capture_output=True, check=True)
    answer: list[Any] = json.loads(ran.stdout)
    ending, grown_kib = answer
    assert ending == "Failed"
    assert grown_kib < 24 << 10
