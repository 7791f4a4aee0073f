"""The child as a process: its environment, its limits, its death, and what forged messages do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec import Raw

from cruft_sched.core.outcomes import BudgetError, ChildError, Completed, RequestError, Stopped
from cruft_sched.core.policy import Budgets
from cruft_sched.errors import UnavailableError
from cruft_sched.turns import launcher, wire
from cruft_sched.turns.launcher import Limits, TurnStoppedError
from cruft_sched.turns.session import TurnFailedError, TurnSession

READY = b'{"type":"ready","level":{"isolation":"process"}}'
COMPLETE = b'{"type":"complete","result":1}'


def ignore(_kind: str, _fields: Mapping[str, Any]) -> None:
    """Note nothing."""


def session(**budgets: int) -> TurnSession:
    return TurnSession(Budgets(**budgets), {"a": Raw(b"1")}, ignore, may_suspend=True)


def run(code: str, monkeypatch: pytest.MonkeyPatch, lines: list[bytes], timeout_ms: int = 5000) -> int:
    """Run Python `code` in the place of the child; `out` is the pipe to the driver."""
    boot = f"import os, sys, time; out = int(sys.argv[2]); {code}"
    monkeypatch.setattr(launcher, "_BOOT", boot)
    return launcher.run_child(b"job", Limits(timeout_ms=timeout_ms, max_line_bytes=1000), lines.append)


def test_the_exit_code_is_a_shells(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("os._exit(7)", monkeypatch, []) == 7
    assert run("os.kill(os.getpid(), 11)", monkeypatch, []) == 139


def test_the_child_has_nothing_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRUFT_SECRET", "s")
    lines: list[bytes] = []
    code = (
        "null = os.stat(os.devnull).st_rdev; std = [os.fstat(fd).st_rdev == null for fd in (0, 1, 2)];"
        "env = sorted(open('/proc/self/environ').read().split(chr(0))); fds = len(os.listdir('/proc/self/fd'));"
        "os.write(out, repr((env, std, fds, os.getsid(0) == os.getpid(), os.getcwd())).encode() + b'\\n')"
    )
    assert run(code, monkeypatch, lines) == 0
    # its descriptors: 0, 1, 2, its two pipes, and the folder that listdir itself has open
    assert lines == [repr((["", "PYTHONHASHSEED=0", "TZ=UTC0"], [True] * 3, 6, True, "/")).encode()]


def test_a_flood_without_an_end_of_line_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TurnFailedError, match="more than 1000 bytes"):
        run("[os.write(out, b'x' * 4096) for _ in iter(int, 1)]", monkeypatch, [])


def test_a_child_that_never_reads_its_job_ends_at_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "_BOOT", "import time; time.sleep(60)")
    with pytest.raises(TurnFailedError, match="timeout_ms"):
        launcher.run_child(b"x" * (4 << 20), Limits(timeout_ms=200, max_line_bytes=1000), print)


def test_a_child_that_closes_its_pipe_and_lives_on_ends_at_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TurnFailedError, match="timeout_ms"):
        run("os.close(out); time.sleep(60)", monkeypatch, [], timeout_ms=200)


def test_what_the_child_started_dies_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[bytes] = []
    code = "pid = os.fork(); (time.sleep(60) if pid == 0 else (os.write(out, b'%d\\n' % pid), os._exit(0)))"
    with pytest.raises(TurnFailedError, match="timeout_ms"):  # the grandchild holds the pipe
        run(code, monkeypatch, lines, timeout_ms=300)
    assert gone(int(lines[0]))


def gone(pid: int) -> bool:
    """Whether a process ends within a while: a killed one is reaped by whoever adopted it."""
    for _ in range(400):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def test_the_child_dies_with_its_driver() -> None:
    driver = (
        "import sys; from cruft_sched.core.policy import Budgets; from cruft_sched.turns.turn import Turn, run_turn\n"
        "turn = Turn(source=b'emit({}); while (true);', context={}, state={}, budgets=Budgets(), scheduled=True)\n"
        "run_turn(turn, lambda kind, fields: print(kind, flush=True))"
    )
    with subprocess.Popen([sys.executable, "-c", driver], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"emit\n"
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
            (child,) = map(int, children.read().split())
        process.kill()
    assert gone(child)


def test_no_descriptor_and_no_zombie_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for code in ("os._exit(0)", "os.write(out, b'x' * 5000); time.sleep(60)"):
        with pytest.raises(TurnFailedError) if "sleep" in code else _nothing():
            run(code, monkeypatch, [])
    assert len(os.listdir("/proc/self/fd")) == before
    with open(f"/proc/self/task/{os.getpid()}/children") as children:
        assert children.read().split() == []


class _nothing:  # noqa: N801  # reads as pytest.raises does, beside it
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


FORGED: dict[str, list[bytes]] = {
    "no json": [READY, b"hello"],
    "no type": [READY, b"{}"],
    "unknown type": [READY, b'{"type":"root"}'],
    "unknown field": [READY, b'{"type":"emit","event":{},"more":1}'],
    "not ready": [b'{"type":"emit","event":{}}'],
    "ready twice": [READY, READY],
    "after the end": [READY, b'{"type":"complete","result":1}', b'{"type":"emit","event":{}}'],
    "two ends": [READY, b'{"type":"complete","result":1}', b'{"type":"complete","result":2}'],
    "event is no object": [READY, b'{"type":"emit","event":[1]}'],
    "invalid utf-8": [READY, b'{"type":"emit","event":{"a":"\xff"}}'],
    "lone surrogate": [READY, b'{"type":"emit","event":{"a":"\\ud800"}}'],
    "deep": [READY, b'{"type":"emit","event":{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}}"],
    "negative sleep": [READY, b'{"type":"suspend","request":{"kind":"sleep","delay_ms":-1}}'],
    "long sleep": [READY, b'{"type":"suspend","request":{"kind":"sleep","delay_ms":315576000001}}'],
    "fractional sleep": [READY, b'{"type":"suspend","request":{"kind":"sleep","delay_ms":1.5}}'],
    "far deadline": [READY, b'{"type":"suspend","request":{"kind":"sleep_until","deadline_ms":9007199254740992}}'],
    "long name": [READY, b'{"type":"fail","error":{"name":"' + b"x" * 201 + b'","message":"","stack":""}}'],
    "empty line": [READY, b""],
    "output before ready": [b'{"type":"output","stream":"stdout","text":"x"}'],
    "output of another stream": [READY, b'{"type":"output","stream":"tty","text":"x"}'],
    "output after the end": [READY, COMPLETE, b'{"type":"output","stream":"stdout","text":"x"}'],
    "output of no text": [READY, b'{"type":"output","stream":"stdout","text":5}'],
    "denial before ready": [b'{"type":"import_denial","specifier":"x"}'],
    "denial of no text": [READY, b'{"type":"import_denial","specifier":5}'],
    "long denial": [READY, b'{"type":"import_denial","specifier":"' + b"x" * 201 + b'"}'],
    "a call before ready": [b'{"type":"tool_call","tool":"echo","args":1}'],
    "a call after the end": [READY, COMPLETE, b'{"type":"tool_call","tool":"echo","args":1}'],
    "a call of no tool": [READY, b'{"type":"tool_call","args":1}'],
    "a call of no text": [READY, b'{"type":"tool_call","tool":5,"args":1}'],
    "a call of an empty text": [READY, b'{"type":"tool_call","tool":"","args":1}'],
    "a call without arguments": [READY, b'{"type":"tool_call","tool":"echo"}'],
    "a call for a negative time": [READY, b'{"type":"tool_call","tool":"echo","args":1,"timeout_ms":-1}'],
    "a call with more": [READY, b'{"type":"tool_call","tool":"echo","args":1,"granted":true}'],
    "a note before ready": [b'{"type":"note","note":1}'],
    "a note of nothing": [READY, b'{"type":"note"}'],
    "a note after the end": [READY, COMPLETE, b'{"type":"note","note":1}'],
    "a reset with more": [READY, b'{"type":"state_reset","key":"a"}'],
    "a reset after the end": [READY, COMPLETE, b'{"type":"state_reset"}'],
    "a refusal below the limit": [READY, b'{"type":"refused","budget":"max_state_bytes","attempted":262144}'],
    "a refusal of another budget": [READY, b'{"type":"refused","budget":"timeout_ms","attempted":99999999}'],
    "over, below the limit": [READY, b'{"type":"over","budget":"max_microtasks","attempted":100000}'],
    "over another budget": [READY, b'{"type":"over","budget":"timeout_ms","attempted":99999999}'],
    "over a budget that is not set": [READY, b'{"type":"over","budget":"max_steps","attempted":99999999}'],
    "over without end": [READY, b'{"type":"over","budget":"max_microtasks","attempted":1' + b"0" * 30 + b"}"],
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_message_fails_the_turn(name: str) -> None:
    *before, last = FORGED[name]
    taken = session()
    for line in before:
        taken.on_line(line)
    with pytest.raises(TurnFailedError) as failure:
        taken.on_line(last)
    assert isinstance(failure.value.error, RequestError if name == "deep" else ChildError)


@pytest.mark.parametrize(
    ("line", "budget", "limit", "attempted"),
    [
        (b'{"type":"tool_call","tool":"echo","args":"123456789"}', "max_tool_arg_bytes", 10, 11),
        (b'{"type":"note","note":"123456789"}', "max_event_bytes", 10, 11),
        (b'{"type":"emit","event":{"a":12345}}', "max_event_bytes", 10, 11),
    ],
)
def test_what_the_child_lets_grow_is_stopped_by_the_driver(
    line: bytes, budget: str, limit: int, attempted: int
) -> None:
    taken = session(**{budget: limit})
    taken.on_line(READY)
    with pytest.raises(TurnFailedError) as failure:
        taken.on_line(line)
    assert failure.value.error == BudgetError(budget=budget, limit=limit, attempted=attempted)


def test_arguments_that_nobody_can_read_fail_the_turn() -> None:
    taken = session()
    taken.on_line(READY)
    with pytest.raises(TurnFailedError, match="args cannot be read"):
        taken.on_line(b'{"type":"tool_call","tool":"echo","args":1e999}')


SPEAKS_ON = {
    "in one write": "os.write(out, b'a\\na\\n')",
    "one after the other": "os.write(out, b'a\\n'); time.sleep(0.05); os.write(out, b'a\\n')",
    "with half of the answer read": (
        "os.write(out, b'a\\n'); time.sleep(0.05); os.read(int(sys.argv[1]), 2); os.write(out, b'a\\n')"
    ),
}


@pytest.mark.parametrize("how", SPEAKS_ON)
@pytest.mark.parametrize("size", [10, 1 << 20])
def test_a_child_that_does_not_read_its_answer_may_not_speak_on(
    monkeypatch: pytest.MonkeyPatch, how: str, size: int
) -> None:
    lines: list[bytes] = []

    def answer(line: bytes) -> bytes:
        lines.append(line)
        return wire.frame(b"x" * size)

    code = f"os.read(int(sys.argv[1]), 3); {SPEAKS_ON[how]}; time.sleep(60)"
    monkeypatch.setattr(launcher, "_BOOT", f"import os, sys, time; out = int(sys.argv[2]); {code}")
    with pytest.raises(TurnFailedError, match="before it had read its last answer"):
        launcher.run_child(b"job", Limits(timeout_ms=5000, max_line_bytes=1000), answer)
    assert lines == [b"a"]


def test_a_child_that_does_not_read_its_job_gets_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "_BOOT", "import os, sys, time; os.write(int(sys.argv[2]), b'a\\n'); time.sleep(60)")
    with pytest.raises(TurnFailedError, match="asked before it had read its job"):
        launcher.run_child(b"x" * (1 << 20), Limits(timeout_ms=5000, max_line_bytes=1000), lambda _line: b"1\nx")


def test_answers_that_are_read_come_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[int] = []
    lines: list[bytes] = []

    def answer(line: bytes) -> bytes:
        lines.append(line)
        return wire.frame(line * 100_000)

    code = (
        "sys.path[:0] = sys.argv[3:]; from cruft_sched.turns.host import read_frame; pipe = int(sys.argv[1]);"
        "os.read(pipe, 3); [(os.write(out, b'%d\\n' % n), os._exit(9) if read_frame(pipe) != b'%d' % n * 100000"
        " else 0) for n in range(5)]"
    )
    monkeypatch.setattr(launcher, "_BOOT", f"import os, sys, time; out = int(sys.argv[2]); {code}")
    limits = Limits(timeout_ms=5000, max_line_bytes=1000)
    assert launcher.run_child(b"job", limits, answer, pause=lambda: pauses.append(len(lines))) == 0
    assert lines == [b"0", b"1", b"2", b"3", b"4"]
    assert sorted(set(pauses) - {0}) == [1, 2, 3, 4, 5]


def test_what_comes_at_once_is_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[int] = []
    lines: list[bytes] = []
    monkeypatch.setattr(launcher, "_BOOT", "import os, sys; os.write(int(sys.argv[2]), b'x\\n' * 1000)")
    limits = Limits(timeout_ms=5000, max_line_bytes=1000)
    launcher.run_child(b"job", limits, lines.append, pause=lambda: pauses.append(len(lines)))
    assert set(pauses) <= {0, 1000}


def test_a_suspension_outside_a_job_is_a_forgery() -> None:
    taken = TurnSession(Budgets(), {}, ignore, may_suspend=False)
    taken.on_line(READY)
    with pytest.raises(TurnFailedError):
        taken.on_line(b'{"type":"suspend","request":{"kind":"sleep","delay_ms":1}}')


def test_a_state_that_the_child_lets_grow_is_stopped_by_the_driver() -> None:
    taken = session(max_state_bytes=20)
    taken.on_line(READY)
    with pytest.raises(TurnFailedError) as failure:
        taken.on_line(b'{"type":"state_set","key":"b","value":"0123456789"}')
    assert failure.value.error == BudgetError(budget="max_state_bytes", limit=20, attempted=24)


def test_success_takes_a_last_message_and_exit_code_0() -> None:
    complete = b'{"type":"complete","result":1}'
    cases: list[tuple[list[bytes], int, Callable[[Any], bool]]] = [
        ([READY, complete], 0, lambda ending: isinstance(ending, Completed)),
        ([READY, complete], 1, lambda ending: "exited with code 1" in str(ending.error)),
        ([READY, complete], 137, lambda ending: "killed by signal 9" in str(ending.error)),
        ([READY], 0, lambda ending: "without a last message" in str(ending.error)),
    ]
    for lines, code, holds in cases:
        taken = session()
        for line in lines:
            taken.on_line(line)
        assert holds(taken.on_exit(code))


def test_a_child_that_cannot_start_is_not_the_agents_fault() -> None:
    with pytest.raises(UnavailableError, match=r"could not start: OSError: no limits") as failure:
        session().on_line(b"OSError: no limits")
    assert failure.value.exit_code == 69
    with pytest.raises(UnavailableError, match="it said nothing"):
        session().on_exit(98)


def test_a_turn_that_is_told_to_stop_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[bytes] = []
    monkeypatch.setattr(launcher, "_BOOT", "import os, sys, time; os.write(int(sys.argv[2]), b'up\\n'); time.sleep(60)")
    limits = Limits(timeout_ms=60_000, max_line_bytes=100, stop=lambda: Stopped(reason="cancelled") if lines else None)
    with pytest.raises(TurnStoppedError) as stopped:
        launcher.run_child(b"job", limits, lines.append)
    assert stopped.value.ending == Stopped(reason="cancelled")


def test_a_message_without_its_end_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TurnFailedError, match="in the middle of a message"):
        run("os.write(out, b'{}')", monkeypatch, [])


@pytest.mark.parametrize(
    "message",
    [
        b'{"type":"suspend","request":{"kind":"tool","tool":"echo","args":1e999}}',
        b'{"type":"suspend","request":{"kind":"tool","tool":"echo","args":[1' + b"0" * 5000 + b"]}}",
        b'{"type":"suspend","request":{"kind":"input","input_kind":"ok","payload":1e999}}',
        b'{"type":"suspend","request":{"kind":"input","input_kind":"ok","payload":1,"schema":{"minimum":1e999}}}',
        b'{"type":"emit","event":{"a":1' + b"0" * 5000 + b"}}",
        b'{"type":"emit","event":{"a":1e999}}',
        b'{"type":"note","note":-1e999}',
        b'{"type":"state_set","key":"a","value":1e999}',
        b'{"type":"complete","result":1e999}',
        b'{"type":"tool_call","tool":"echo","args":1e999}',
    ],
)
def test_what_nobody_can_read_again_fails_the_turn(message: bytes) -> None:
    taken = session()
    taken.on_line(READY)
    with pytest.raises(TurnFailedError, match="cannot be read") as failure:
        taken.on_line(message)
    assert isinstance(failure.value.error, RequestError)


@pytest.mark.parametrize("schema", [b'{"pattern":"x"}', b"[]", b'{"items":{"$ref":"#"}}'])
def test_a_schema_that_cannot_be_checked_fails_the_turn(schema: bytes) -> None:
    taken = session()
    taken.on_line(READY)
    request = b'{"kind":"input","input_kind":"ok","payload":1,"schema":' + schema + b"}"
    with pytest.raises(TurnFailedError, match=r"options\.schema is refused") as failure:
        taken.on_line(b'{"type":"suspend","request":' + request + b"}")
    assert isinstance(failure.value.error, RequestError)


def test_a_job_comes_through_the_pipe_whole() -> None:
    fields = [b"", b"\n\n", "é\n1 2".encode(), b"\0" * 10]
    assert wire.unpack(wire.pack({"a": 1, "b": "x"}, fields)) == ({"a": "1", "b": "x"}, fields)
    with pytest.raises(ValueError, match="torn"):
        wire.unpack(wire.pack({"a": 1}, fields)[:-1])


def test_the_child_imports_nothing_slow() -> None:
    """Each of these costs more than the whole compartment; a turn would pay for it every time."""
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]; from cruft_sched.turns import child, javascript, python;"
        "print([name for name in ('typing', 're', 'json', 'msgspec', 'enum', 'collections') if name in sys.modules])"
    )
    command = [sys.executable, "-P", "-s", "-S", "-c", code, *launcher._import_path()]
    done = subprocess.run(command, capture_output=True, check=True, env=launcher.ENVIRONMENT)
    assert done.stdout == b"[]\n"
