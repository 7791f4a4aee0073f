"""What is measured. A figure is made ready once, outside the timed part, and run once a round."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import cruft_sched
from cruft_sched.clock import SystemClock
from cruft_sched.core.policy import Budgets
from cruft_sched.ops.start import start
from cruft_sched.stores import atomic
from cruft_sched.turns.turn import Turn, run_turn
from tests.benchmarks.bench import Bench, Goal, Run

JOBS = 1_000
WRITES_A_ROUND = 50
WRITE_BYTES = 2 << 10

LIST_EMPTY = "list of an empty store"
LIST_FULL = "list of 1,000 jobs"
SWEPT = 200
SWEEP = "sweep of 200 due jobs"
EMITS = 10_000
CALLS = 1_000

_AGENTS = {
    "agent.js": 'emit({kind: "x"}); scheduler.sleep(86400000);',
    "agent.py": 'emit({"kind": "x"}); scheduler.sleep(86400000)',
    "again.js": 'emit({kind: "x"}); scheduler.sleep(0);',
    "emits.js": f'for (let i = 0; i < {EMITS}; i++) emit({{kind: "x", i}}); scheduler.sleep(0);',
    "calls.js": f'for (let i = 0; i < {CALLS}; i++) await callTool("echo", {{i}}); scheduler.sleep(0);',
}


@dataclass(frozen=True)
class Figure:
    """Something to measure, and what it should not exceed."""

    name: str
    prepare: Callable[[Bench], Run]
    goal: Goal | None = None


def not_ready_tick(bench: Bench) -> Run:
    """The tick of a job that sleeps: what a cron line costs while there is nothing to do."""
    store = _store(bench, "sleeping")
    store.start("nap")
    tick = store.command("tick", "nap")
    bench.seconds(tick, b'"status":"awaiting_timer"')
    return lambda: bench.seconds(tick, b'"ready":false')


def javascript_tick(bench: Bench) -> Run:
    """The tick that runs one JavaScript turn."""
    return _turn_tick(bench, _store(bench, "javascript"))


def python_tick(bench: Bench) -> Run:
    """The tick that runs one Python turn."""
    return _turn_tick(bench, _store(bench, "python", "agent.py"))


def _turn_tick(bench: Bench, store: _Store) -> Run:
    """A job can be measured once, so each run takes the next one."""
    names = [f"turn-{number}" for number in range(bench.rounds + 1)]  # one for the warm-up
    for name in names:
        store.start(name)
    commands = iter([store.command("tick", name) for name in names])
    return lambda: bench.seconds(next(commands), b'"status":"awaiting_timer"')


def emits(bench: Bench) -> Run:
    """The tick of a turn that says much: what a line costs on its way from the agent into the audit log."""
    return _again(_store(bench, "emits", "emits.js"))


def calls(bench: Bench) -> Run:
    """The tick of a turn that calls many tools: what a question of the agent and its answer cost."""
    return _again(_store(bench, "calls", "calls.js"))


def _again(store: _Store) -> Run:
    """The next turn of one job that is due again after each."""
    store.start("again")
    tick = store.command("tick", "again")
    return lambda: store.bench.seconds(tick, b'"status":"awaiting_timer"')


def _turn(language: str) -> Run:
    """One turn, from the start of its process until that is reaped."""
    turn = Turn(source=b"emit({})", context={}, state={}, budgets=Budgets(), language=language, scheduled=True)

    def once() -> float:
        started = time.perf_counter()
        run_turn(turn, lambda _kind, _fields: None)
        return time.perf_counter() - started

    return once


_APPLY = """
import os, sys, time
sys.path[:0] = {path!r}
from cruft_sched.turns.compartment.confine import confine
sys.path[:] = {stdlib!r}
started = time.perf_counter()
confine({tier!r}, driver=os.getppid(), pipes=(), readable=sys.path, timeout_ms=30_000, memory_bytes=1 << 29)
took = time.perf_counter() - started
os.write(1, str(took).encode())
"""


def _compartment(bench: Bench, tier: str) -> Run:
    """What a process takes to confine itself, without its start."""
    package = os.path.dirname(os.path.dirname(cruft_sched.__file__))
    source = _APPLY.format(path=[package], stdlib=[os.path.dirname(os.__file__)], tier=tier)
    command = [sys.executable, "-P", "-s", "-S", "-c", source]
    return lambda: float(bench.output(command))


def list_empty(bench: Bench) -> Run:
    """What `list` costs before the first job."""
    store = _store(bench, "empty")
    store.start("none")
    # A store is made by its first start, so the empty one is a store whose only job went away.
    os.rename(os.path.join(store.root, "jobs", "none"), os.path.join(store.folder, "gone"))
    command = store.command("list")
    return lambda: bench.seconds(command, b'"jobs":[]')


def list_full(bench: Bench) -> Run:
    """`list` reads and verifies every manifest. The jobs are made in this process: 1,000 processes take minutes."""
    store = _store(bench, "full")
    for number in range(JOBS):
        bench.progress(f"making job {number + 1:,} of {JOBS:,}")
        store.start(f"job-{number:04}")
    command = store.command("list")
    return lambda: bench.seconds(command, f'"job_id":"job-{JOBS - 1:04}"'.encode())


def sweep(bench: Bench) -> Run:
    """One turn of each of many jobs that are all due, and due again after it."""
    store = _store(bench, "sweep", "again.js")
    for number in range(SWEPT):
        store.start(f"job-{number:03}")
    command = store.command("tick", "--due", "--workers", "2")
    return lambda: bench.seconds(command, f'"moved":{SWEPT},"failed":0'.encode())


def durable_write(bench: Bench) -> Run:
    """One write that survives a power cut, without the start of a process around it."""
    path, data = os.path.join(bench.folder, "record"), b"x" * WRITE_BYTES

    def once() -> float:
        started = time.perf_counter()
        atomic.replace(path, data)
        return time.perf_counter() - started

    return lambda: median(once() for _ in range(WRITES_A_ROUND))


FIGURES = (
    Figure("not-ready tick", not_ready_tick, Goal(14)),
    Figure("tick with a JavaScript turn", javascript_tick, Goal(20)),
    Figure("tick with a Python turn", python_tick),
    Figure("10,000 emits in one turn", emits, Goal(plus_ms=500)),
    Figure("1,000 tool calls in one turn", calls, Goal(20, plus_ms=250)),
    Figure("a JavaScript turn", lambda _bench: _turn("javascript"), Goal(1.6, plus_ms=10)),
    Figure("a Python turn", lambda _bench: _turn("python"), Goal(1, plus_ms=30)),
    Figure("applying the strict tier", lambda bench: _compartment(bench, "strict"), Goal(plus_ms=1)),
    Figure("applying the stdlib tier", lambda bench: _compartment(bench, "stdlib"), Goal(plus_ms=1)),
    Figure(LIST_EMPTY, list_empty),
    Figure(LIST_FULL, list_full),
    Figure(SWEEP, sweep),
    Figure("one durable write", durable_write),
)


@dataclass(frozen=True)
class _Store:
    """A store of its own, beside the policy its jobs are made of."""

    bench: Bench
    folder: str

    @property
    def root(self) -> str:
        return os.path.join(self.folder, "store")

    def start(self, job_id: str) -> None:
        start(os.path.join(self.folder, "agent-policy.json"), SystemClock(), store_root=self.root, job_id=job_id)

    def command(self, name: str, *arguments: str) -> list[str]:
        return [self.bench.cruft, "agent", "schedule", name, *arguments, "--store", self.root]


def _store(bench: Bench, name: str, agent: str = "agent.js") -> _Store:
    folder = os.path.join(bench.folder, name)
    os.mkdir(folder)
    fields = {"schema_version": 1, "agent": agent, "audit_log": "audit.jsonl", "tools": ["echo"]}
    policy = json.dumps(fields | {"budgets": {"max_events": EMITS}})
    for file, text in (("agent-policy.json", policy), (agent, _AGENTS[agent])):
        with open(os.path.join(folder, file), "w", encoding="utf-8") as out:
            out.write(text)
    return _Store(bench, folder)
