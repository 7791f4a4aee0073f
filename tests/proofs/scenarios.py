"""What is broken in every way: each command at each point of a job's life, in both languages. Data, and no code.

Whatever comes to write to the store adds its steps here, and test_kills, test_faults and test_clocks take them up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cruft_sched.core.manifest import Status

LANGUAGES = ("javascript", "python")
JS_AGENT = """
const r = context.scheduler_resume;
state.set("n", (state.get("n") ?? 0) + 1);
emit({kind: r ? "after" : "before", pad: "x".repeat(%d)});
if (!r) %s;
close(state.get("n"));
"""
PY_AGENT = """
r = context.get("scheduler_resume")
state.set("n", state.get("n", 0) + 1)
emit({"kind": "after" if r else "before", "pad": "x" * %d})
if not r: %s
close(state.get("n"))
"""
WAITS = {
    "nap": ("scheduler.sleep(0)", "scheduler.sleep(0)"),
    "tool": ('scheduler.callTool("echo", {a: 1})', 'scheduler.call_tool("echo", {"a": 1})'),
    "input": ('scheduler.waitForInput("approval", {q: 1})', 'scheduler.wait_for_input("approval", {"q": 1})'),
    "timeout": (
        'scheduler.waitForInput("approval", {q: 1}, {timeout_ms: 1})',
        'scheduler.wait_for_input("approval", {"q": 1}, timeout_ms=1)',
    ),
    "timeout fails": (
        'scheduler.waitForInput("approval", {q: 1}, {timeout_ms: 1, on_timeout: "fail"})',
        'scheduler.wait_for_input("approval", {"q": 1}, timeout_ms=1, on_timeout="fail")',
    ),
    "throw": ('(() => { throw new Error("no") })()', "1 / 0"),
}
STORE = ("--store", "{store}")
START = ("start", "--policy", "{policy}", *STORE, "--job-id", "{job}")
START_OTHER = (*START[:-1], "other")
TICK = ("tick", "{job}", *STORE)
ANSWER = ("input", "{job}", *STORE, "--token", "{token}", "--json", "7")
DEFER = (*ANSWER, "--defer")
CANCEL = ("cancel", "{job}", *STORE)
SWEEP = ("tick", "--due", *STORE)


@dataclass(frozen=True)
class Killed:
    """A step that ends with `kill -9`, right after its n-th rename."""

    arguments: tuple[str, ...]
    rename: int


Step = tuple[str, ...] | Killed


@dataclass(frozen=True)
class Scenario:
    """A command under attack, what came before it, and what must have come of it all in the end."""

    command: tuple[str, ...]
    before: tuple[Step, ...] = ()
    wait: str = "nap"
    jobs: tuple[str, ...] = ("job",)
    """The first is the one that {job} means in the command; the steps before it are taken with each."""
    policy: dict[str, Any] = field(default_factory=dict)
    status: Status = "completed"
    events: tuple[str, ...] = ("before", "after")
    settled: tuple[str, ...] = ("fired",)
    """What the timeline must have of `fired`, `tool_done`, `answered` and `timed_out`, in this order."""
    answered: bool = True
    """Whether an input is answered, on the way to the end; else its deadline is waited for."""
    pad: int = 0
    """So many characters are in each event besides."""
    effects: bool = False
    """Whether the tool has an effect: then it is had once at most, and if the driver died in it, never again."""


_TOOL = {"tools": ["echo"]}
_ROTATING = {"audit_log_max_bytes": 65_536, "budgets": {"max_event_bytes": 100_000}}
_ONCE = {"budgets": {"max_scheduler_turns": 1}}
_ANSWERED: dict[str, Any] = {"wait": "input", "settled": ("answered",)}
_DIED_ONCE = (START, Killed(TICK, 1))
_DIED_TWICE = (*_DIED_ONCE, Killed(TICK, 2))

SCENARIOS: dict[str, Scenario] = {
    "the first start of a store": Scenario(START),
    "a start": Scenario(START, (START_OTHER,)),
    "a pinned start": Scenario((*START, "--pin", "--label", "a=b", "--context", '{{"x": 1}}')),
    "the first turn": Scenario(TICK, (START,)),
    "a timer": Scenario(TICK, (START, TICK)),
    "a tool": Scenario(TICK, (START, TICK), wait="tool", policy=_TOOL, settled=("tool_done",)),
    "a tool that writes": Scenario(
        TICK, (START, TICK), wait="tool", policy=_TOOL, settled=("tool_done",), effects=True
    ),
    "a tool whose driver died": Scenario(
        TICK, (START, TICK, Killed(TICK, 1)), wait="tool", policy=_TOOL, settled=("tool_done",), effects=True
    ),
    "an answer": Scenario(ANSWER, (START, TICK), **_ANSWERED),
    "a deferred answer": Scenario(DEFER, (START, TICK), **_ANSWERED),
    "the turn after a deferred answer": Scenario(TICK, (START, TICK, DEFER), **_ANSWERED),
    "a deadline that resumes": Scenario(TICK, (START, TICK), wait="timeout", settled=("timed_out",), answered=False),
    "a deadline that fails": Scenario(
        TICK, (START, TICK), wait="timeout fails", status="failed", events=("before",), settled=(), answered=False
    ),
    "a turn that fails": Scenario(TICK, (START,), wait="throw", status="failed", events=("before",), settled=()),
    "a budget": Scenario(TICK, (START, TICK), policy=_ONCE, status="expired", events=("before",), settled=()),
    "a cancel before the first turn": Scenario(CANCEL, (START,), status="cancelled", events=(), settled=()),
    "a cancel of a job that waits": Scenario(CANCEL, (START, TICK), status="cancelled", events=("before",), settled=()),
    "a cancel of a job whose driver died": Scenario(CANCEL, _DIED_ONCE, status="cancelled", events=(), settled=()),
    "a cancel that was asked for": Scenario(
        TICK, (START, TICK, Killed(CANCEL, 1)), status="cancelled", events=("before",), settled=()
    ),
    "a recovery": Scenario(TICK, _DIED_ONCE),
    "the third interruption": Scenario(TICK, (*_DIED_TWICE, Killed(TICK, 2)), status="failed", events=(), settled=()),
    "a sweep": Scenario(SWEEP, (START, TICK), jobs=("job", "other", "third")),
    "a log that is renamed": Scenario(TICK, (START, TICK), policy=_ROTATING, pad=70_000),
}
