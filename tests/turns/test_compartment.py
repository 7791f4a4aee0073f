"""What the compartment leaves an agent, its gates that kill, and machines on which it cannot be had."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from cruft_sched.core.policy import Budgets
from cruft_sched.linux import kernel
from cruft_sched.linux.kernel import CompartmentError
from cruft_sched.ops.show_token import show_token
from cruft_sched.ops.tick import tick
from cruft_sched.turns import launcher
from tests.old_kernel import LANDLOCK
from tests.support import PROGRAM, Project
from tests.turns.test_child_process import gone
from tests.turns.test_javascript import Result

PATIENT = Budgets(timeout_ms=20_000)

WORKS = {
    "json": "import json; close(json.loads(json.dumps({'a': [1.5, None]})) == {'a': [1.5, None]})",
    "re": "import re; close(re.match(r'(a+)b', 'aab').group(1) == 'aa')",
    "datetime": (
        "from datetime import datetime, timedelta, UTC\n"
        "close((datetime(2026, 2, 28, tzinfo=UTC) + timedelta(days=1)).isoformat() == '2026-03-01T00:00:00+00:00')"
    ),
    "the clock": "import time, datetime; close(abs(time.time() - datetime.datetime.now().timestamp()) < 5)",
    "the zone is UTC": "import time; close((time.tzname[0], time.localtime(0).tm_hour) == ('UTC', 0))",
    "math": "import math; close(math.isclose(math.sin(math.pi / 2), 1))",
    "decimal": "from decimal import Decimal; close(str(Decimal('0.1') + Decimal('0.2')) == '0.3')",
    "fractions": "from fractions import Fraction; close(Fraction(1, 3) * 3 == 1)",
    "statistics": "import statistics; close(statistics.median([3, 1, 2]) == 2)",
    "random": "import random, secrets; close(0 <= random.random() < 1 and len(secrets.token_hex(4)) == 8)",
    "hashes": "import hashlib; close(hashlib.sha256(b'').hexdigest()[:8] == 'e3b0c442')",
    "text": "import textwrap, string, difflib; close(textwrap.fill('a b', 1) == 'a\\nb')",
    "csv": "import csv, io; close(list(csv.reader(io.StringIO('a,b'))) == [['a', 'b']])",
    "xml": "import xml.etree.ElementTree as E; close(E.fromstring('<a b=\"1\"/>').get('b') == '1')",
    "urls": "from urllib.parse import urlsplit; close(urlsplit('http://a/b?c').query == 'c')",
    "html": "import html; close(html.escape('<') == '&lt;')",
    "base64": "import base64, binascii, struct; close(base64.b64encode(b'ab') == b'YWI=')",
    "data classes": (
        "from dataclasses import dataclass\nfrom enum import Enum\nfrom typing import NamedTuple\n"
        "@dataclass\nclass A: x: int\nclose(A(1) == A(1))"
    ),
    "collections": "import collections, heapq, bisect, functools; close(collections.Counter('aa')['a'] == 2)",
    "logging": "import logging; logging.getLogger('x').warning('y'); close(True)",
    "arguments": "import argparse; close(argparse.ArgumentParser().parse_args([]) is not None)",
    "uuid": "import uuid; close(len(str(uuid.uuid4())) == 36)",
    "compression": "import zlib, gzip, bz2, lzma; close(gzip.decompress(gzip.compress(b'a')) == b'a')",
    "where it is": "import platform, sysconfig, site, os; close(platform.system() == 'Linux' and os.getpid() > 0)",
    "ast": "import ast, inspect, traceback, copy, pprint, operator; close(ast.literal_eval('[1]') == [1])",
    "sleeping": "import time; time.sleep(0.001); close(True)",
    "locks": "import threading, queue; q = queue.Queue(); q.put(1); close(q.get() == 1)",
    "100 MiB": "a = bytearray(100 << 20); a[::4096] = b'x' * len(a[::4096]); close(len(a) == 100 << 20)",
    "reading the standard library": "import os; close(open(os.__file__).read(3) == 'r\"\"')",
    "its folder": "import os; close(os.getcwd() == '/')",
}


@pytest.mark.parametrize("name", WORKS)
def test_what_must_work_works(name: str) -> None:
    assert Result(WORKS[name], language="python", budgets=PATIENT).value is True


NOT_THERE = {
    "asyncio": "import asyncio; asyncio.run(asyncio.sleep(0))",
    "zoneinfo": "import zoneinfo; zoneinfo.ZoneInfo('Europe/Paris')",
    "threads": "import threading; threading.Thread(target=int).start()",
    "temporary files": "import tempfile; tempfile.TemporaryFile()",
    "subprocesses": "import subprocess; subprocess.run(['true'])",
    "name lookup": "import socket; socket.getaddrinfo('localhost', 80)",
}


@pytest.mark.parametrize("name", NOT_THERE)
def test_what_needs_the_outside_is_an_error_that_can_be_caught(name: str) -> None:
    source = f"try:\n    {NOT_THERE[name]}\nexcept Exception: close('refused')"
    assert Result(source, language="python", budgets=PATIENT).value == "refused"


LANGUAGE = """
    Object Function Error EvalError RangeError ReferenceError SyntaxError TypeError URIError InternalError
    AggregateError SuppressedError Array Iterator Int8Array Uint8Array Int16Array Uint16Array Int32Array Uint32Array
    Float16Array Float32Array Float64Array Uint8ClampedArray BigInt64Array BigUint64Array ArrayBuffer DataView
    Number Boolean String Math Reflect Symbol Proxy Promise Map Set WeakMap WeakSet Date RegExp JSON BigInt
    globalThis Infinity NaN undefined DisposableStack AsyncDisposableStack DOMException eval parseInt parseFloat
    isNaN isFinite decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape queueMicrotask atob
    btoa"""
"""Names of the language itself: none of them reaches the world outside."""


def test_javascript_has_its_language_and_our_globals_and_no_more() -> None:
    given = ["context", "state", "emit", "callTool", "auditNote", "importValue", "close", "scheduler"]
    names = Result("close(Object.getOwnPropertyNames(globalThis))").value
    assert set(given) <= set(names)
    assert set(names) <= {*given, *LANGUAGE.split()}


GATES = {"of 32 bits": "b8 14 00 00 00 cd 80 c3", "of x32": "b8 27 00 00 40 0f 05 c3"}
"""getpid, as machine code, through the doors beside the one of this processor."""

_GATE_BOOT = """
import sys; sys.path[:0] = sys.argv[3:]
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("{code}"))
sys.gate = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
from cruft_sched.turns.child import main; main()"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the machine code is x86-64's")
@pytest.mark.parametrize("gate", GATES)
def test_other_gates_to_the_kernel_kill(gate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "_BOOT", _GATE_BOOT.format(code=GATES[gate]))
    source = "import sys\nclose(sys.gate())"
    # A kernel may be built without these gates; where it has them, they lead to a number.
    assert isinstance(Result(source, language="python", isolation="process").value, int)
    confined = Result(source, language="python")
    assert confined.outcome.child_exit_code == 128 + signal.SIGSYS
    assert "killed by signal 31" in str(confined.error)


def test_the_kernel_ends_a_turn_whose_driver_is_stopped() -> None:
    driver = (
        "from cruft_sched.core.policy import Budgets; from cruft_sched.turns.turn import Turn, run_turn\n"
        "turn = Turn(source=b'emit({}); while (true);', context={}, state={}, budgets=Budgets(timeout_ms=300),"
        " scheduled=True)\n"
        "run_turn(turn, lambda kind, fields: print(kind, flush=True))"
    )
    with subprocess.Popen([sys.executable, "-c", driver], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"emit\n"
        process.send_signal(signal.SIGSTOP)
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
            (child,) = map(int, children.read().split())
        assert gone(child)
        process.kill()


MISSING = {"landlock": LANDLOCK, "seccomp": ("seccomp",), "close_range": ("close_range",)}


def without(calls: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run `cruft` as on a kernel without these calls."""
    command = [sys.executable, "-m", "tests.old_kernel", ",".join(calls), PROGRAM, *arguments]
    return subprocess.run(command, capture_output=True, check=False, cwd=Path(__file__).parents[2])


def project_in(folder: Path, language: str, **policy: Any) -> Project:
    source, name = ("close(1)", "agent.js") if language == "javascript" else ("close(1)", "agent.py")
    return Project(folder, source, name, **policy)


@pytest.mark.parametrize("language", ["javascript", "python"])
@pytest.mark.parametrize("missing", MISSING)
def test_an_old_kernel_is_refused(missing: str, language: str, tmp_path: Path) -> None:
    project = project_in(tmp_path, language)
    project.start()
    ran = without(MISSING[missing], "agent", "schedule", "tick", "job", "--store", project.root)
    said = ran.stderr.decode()
    assert ran.returncode == 69, said
    assert missing in said.lower()
    assert '"isolation": "process"' in said
    assert project.store.load("job").status == "created"
    assert project.store.load("job").turn_cursor == 0
    assert project.audit() == []


@pytest.mark.parametrize("language", ["javascript", "python"])
@pytest.mark.parametrize("missing", MISSING)
def test_an_old_kernel_serves_who_asks_for_less(missing: str, language: str, tmp_path: Path) -> None:
    project = project_in(tmp_path, language, isolation="process")
    project.start()
    ran = without(MISSING[missing], "agent", "schedule", "tick", "job", "--store", project.root)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["status"] == "completed"
    assert (b"warning" in ran.stderr) == (language == "python")
    assert project.audit()[0]["isolation"] == "process"


def test_a_sweep_on_an_old_kernel_changes_no_job_and_says_so_once(tmp_path: Path) -> None:
    project = project_in(tmp_path, "javascript", budgets={"max_scheduler_turns": 1})
    project.start()
    before = project.manifest_file().read_bytes()
    sweep = ("agent", "schedule", "tick", "--due", "--store", project.root)
    first, second = without(LANDLOCK, *sweep), without(LANDLOCK, *sweep)
    assert (first.returncode, second.returncode) == (0, 0)
    assert (b"Landlock" in first.stderr, second.stderr) == (True, b"")
    assert project.manifest_file().read_bytes() == before
    assert b'"status":"completed"' in subprocess.run([PROGRAM, *sweep], capture_output=True, check=True).stdout


def test_an_answer_is_kept_where_its_turn_cannot_be_confined(tmp_path: Path) -> None:
    project = Project(tmp_path, "const r = context.scheduler_resume; r ? close(r.result) : scheduler.waitForInput('a')")
    project.start()
    tick(project.store, "job", project.clock)
    token = show_token(project.store, "job").token
    answer = ("--token", token, "--json", '"yes"')
    ran = without(LANDLOCK, "agent", "schedule", "input", "job", "--store", project.root, *answer)
    assert ran.returncode == 69
    job = project.store.load("job")
    assert (job.status, job.turn_cursor, job.timeline[-1].event) == ("awaiting_input", 1, "answered")
    tick(project.store, "job", project.clock)
    assert project.store.load("job").result == Raw(b'"yes"')


def test_a_tools_outcome_is_kept_where_its_turn_cannot_be_confined(tmp_path: Path) -> None:
    source = "const r = context.scheduler_resume; r ? close(r.result) : scheduler.callTool('echo', 5)"
    project = Project(tmp_path, source, tools=["echo"])
    project.start()
    tick(project.store, "job", project.clock)
    for _ in range(2):
        ran = without(LANDLOCK, "agent", "schedule", "tick", "job", "--store", project.root)
        assert ran.returncode == 69
        assert [entry.event for entry in project.store.load("job").timeline].count("tool_done") == 1
    tick(project.store, "job", project.clock)
    assert project.store.load("job").result == Raw(b"5")


@pytest.mark.parametrize("missing", MISSING)
def test_the_doctor_names_what_an_old_kernel_lacks(missing: str) -> None:
    ran = without(MISSING[missing], "agent", "doctor")
    assert ran.returncode == 69
    report = json.loads(ran.stdout)
    assert not report["available"]
    for tier in report["tiers"]:
        assert not tier["available"]
        assert missing in tier["missing"].lower()
        assert '"isolation": "process"' in tier["remedy"]
    assert missing in ran.stderr.decode().lower()


def test_the_demo_goes_on_without_a_compartment_and_says_so() -> None:
    ran = without(LANDLOCK, "demo")
    assert ran.returncode == 0, ran.stderr
    assert b"No compartment here" in ran.stdout
    assert b"Every outcome was right." in ran.stdout


@pytest.mark.parametrize(("system", "machine"), [("darwin", "x86_64"), ("linux", "riscv64")])
def test_other_systems_and_processors_are_refused(system: str, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("x", "x", "x", "x", machine)))
    with pytest.raises(CompartmentError, match='"isolation": "process"'):
        kernel.processor()


@pytest.mark.parametrize("language", ["javascript", "python"])
def test_the_audit_log_says_how_far_a_turn_was_confined(language: str, project: Project, tmp_path: Path) -> None:
    project = project_in(tmp_path / "p", language)
    project.start()
    tick(project.store, "job", project.clock)
    start = project.audit()[0]
    assert start["type"] == "run_start"
    assert (start["isolation"], start["tier"]) == ("strict", {"javascript": "strict", "python": "stdlib"}[language])
    assert start["landlock_abi"] >= 1
    assert start["identity"] in ("own", "dropped", "kept")


def test_a_turn_ends_within_a_second_of_its_wall() -> None:
    started = time.monotonic()
    ran = Result("while (true);", budgets=Budgets(timeout_ms=100))
    assert "timeout_ms" in str(ran.error)
    assert time.monotonic() - started < 60  # far above what it takes: a loaded machine is no fault
