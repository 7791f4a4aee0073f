"""Tool awaits: the gates, the outcomes, and effects that are never blindly repeated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from cruft_sched.core.awaits import WaitError
from cruft_sched.errors import (
    RefusedError,
    StorageError,
    WrongStatusError,
)
from cruft_sched.ops import kept_results
from cruft_sched.ops.tick import tick
from cruft_sched.stores.file import CancelRequest
from cruft_sched.tools import registry
from cruft_sched.tools.tool import Call, Tool, as_json
from tests.ops.waiting import calling, run, seen
from tests.seam import Seam, failing
from tests.support import Project


def test_echo_gives_its_arguments_back(tmp_path: Path) -> None:
    project = calling(tmp_path, '"echo", {value: "żółw", n: [1, 2.5, null]}')
    report = run(project)
    assert (report.status, report.turn_cursor) == ("completed", 2)
    assert seen(project)["kind"] == "tool"
    assert seen(project)["result"] == {"value": "żółw", "n": [1, 2.5, None]}
    job = project.store.load("job")
    assert (job.budget_ledger.tools, job.awaits) == (1, ())
    assert [entry.event for entry in job.timeline][-3:] == ["tool_done", "turn_started", "completed"]
    assert job.timeline[-3].tool == "echo"
    with pytest.raises(WrongStatusError):
        run(project)


def test_fail_is_data_for_the_agent(tmp_path: Path) -> None:
    project = calling(tmp_path, '"fail"')
    assert run(project).status == "completed"
    assert seen(project)["error"] == {
        "message": "the tool fail always fails",
        "disposition": "error",
        "tool": "fail",
    }
    assert "result" not in seen(project)


def test_slow_within_its_timeout(tmp_path: Path) -> None:
    project = calling(tmp_path, '"slow", {delay_ms: 20, value: 7}')
    run(project)
    assert seen(project)["result"] == {"ok": True, "tool": "slow", "delay_ms": 20, "value": 7}


@pytest.mark.parametrize(
    ("options", "policy", "timeout_ms"),
    [
        ("{timeout_ms: 10}", {}, 10),
        ("{timeout_ms: 0}", {}, 0),
        ("{timeout_ms: 60000}", {"budgets": {"tool_timeout_ms": 15}}, 15),
    ],
)
def test_slow_over_its_timeout(tmp_path: Path, options: str, policy: dict[str, Any], timeout_ms: int) -> None:
    project = calling(tmp_path, f'"slow", {{delay_ms: 86400000, value: 7}}, {options}', **policy)
    run(project)
    error = seen(project)["error"]
    assert error.pop("message") == f"slow was not done after {timeout_ms} ms"
    assert error == {
        "disposition": "timeout",
        "tool": "slow",
        "timeout_ms": timeout_ms,
        "duration_ms": 86400000,
        "late_result_suppressed": True,
    }


@pytest.mark.parametrize(
    ("call", "policy", "what"),
    [
        ('"echo"', {"tools": []}, 'tool "echo" is not allowed by policy'),
        ('"shell"', {}, 'tool "shell" is not allowed by policy'),
        ('"npm.metadata"', {"tools": ["npm.metadata"]}, 'durable tool "npm.metadata" is not available'),
    ],
)
def test_the_gates(tmp_path: Path, call: str, policy: dict[str, Any], what: str) -> None:
    project = calling(tmp_path, call, **policy)
    before = project.manifest_file().read_bytes()
    with pytest.raises(RefusedError, match=what) as error:
        run(project)
    assert error.value.exit_code == 76
    assert project.manifest_file().read_bytes() == before
    assert sorted(os.listdir(project.store.folder("job"))) == ["lock", "manifest.json"]


class Counter:
    """A tool that writes: it counts its calls, and may die in one."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.error: BaseException | None = None

    def __call__(self, call: Call) -> Raw | WaitError:
        self.keys.append(call.idempotency_key)
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return as_json({"done": len(self.keys)})


@pytest.fixture
def counter() -> Counter:
    return Counter()


def install(monkeypatch: pytest.MonkeyPatch, counter: Counter, **kind: Any) -> None:
    monkeypatch.setattr(registry, "catalogue", lambda: {"echo": Tool(run=counter, **kind)})


def test_an_effect_is_never_blindly_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counter: Counter) -> None:
    install(monkeypatch, counter, effect="write")
    project = calling(tmp_path, '"echo", {}')
    counter.error = KeyboardInterrupt()  # the driver dies in the call
    with pytest.raises(KeyboardInterrupt):
        run(project)
    assert project.store.load("job").status == "awaiting_tool"
    assert run(project).status == "completed"
    assert len(counter.keys) == 1
    assert seen(project)["error"]["disposition"] == "unknown"
    events = [entry.event for entry in project.store.load("job").timeline]
    assert events[-4:] == ["tool_started", "tool_done", "turn_started", "completed"]


@pytest.mark.parametrize("kind", [{}, {"effect": "write", "idempotent": True}])
def test_what_may_be_repeated_is_with_the_same_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counter: Counter, kind: dict[str, bool]
) -> None:
    install(monkeypatch, counter, **kind)
    project = calling(tmp_path, '"echo", {}')
    counter.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        run(project)
    run(project)
    assert len(counter.keys) == 2
    assert len(set(counter.keys)) == 1
    assert seen(project)["result"] == {"done": 2}


def test_a_settled_call_is_not_made_again_when_its_turn_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counter: Counter
) -> None:
    install(monkeypatch, counter, effect="write")
    project = calling(tmp_path, '"echo", {}')
    with Seam() as seam:
        tick(project.store, "job", project.clock)
    last_commit = len(seam.seen) - 5
    again = calling(tmp_path / "again", '"echo", {}')
    with Seam(failing(last_commit, 5)), pytest.raises(StorageError):
        tick(again.store, "job", again.clock)
    calls = len(counter.keys)
    assert run(again).status == "completed"
    assert len(counter.keys) == calls
    assert seen(again)["result"] == {"done": calls}


def test_a_tool_that_raises_is_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counter: Counter) -> None:
    install(monkeypatch, counter)
    counter.error = ZeroDivisionError("oops")
    project = calling(tmp_path, '"echo"')
    run(project)
    assert seen(project)["error"] == {
        "message": "ZeroDivisionError: oops",
        "disposition": "error",
        "tool": "echo",
    }


def test_a_result_that_is_too_large_is_kept_beside_the_manifest(tmp_path: Path) -> None:
    project = calling(tmp_path, '"echo", "x".repeat(300)', budgets={"max_tool_result_bytes": 50})
    run(project)
    told = seen(project)["result"]
    assert (told["bytes"], told["preview"]) == (302, '"' + "x" * 199)
    assert project.store.get_object(told["kept"]) == b'"' + b"x" * 300 + b'"'
    assert project.store.load("job").kept_results == {told["kept"]: 302}


def test_a_result_that_is_too_large_for_the_store_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_results, "MAX_KEPT_BYTES", 60)
    project = calling(tmp_path, '"echo", "x".repeat(100)', budgets={"max_tool_result_bytes": 50})
    run(project)
    assert seen(project)["error"]["message"] == "the result of echo is 102 bytes, and no more than 60 can be kept"


def test_large_arguments_go_through_where_the_policy_lets_them(tmp_path: Path) -> None:
    large = {"max_tool_arg_bytes": 4 << 20, "max_tool_result_bytes": 4 << 20}
    source = """const r = context.scheduler_resume;
        if (!r) scheduler.callTool("echo", "x".repeat(2 << 20)); close(r.result.length)"""
    project = Project(tmp_path, source, tools=["echo"], budgets=large)
    project.start()
    assert run(project).status == "awaiting_tool"
    assert run(project).status == "completed"
    assert bytes(project.store.load("job").result) == str(2 << 20).encode()


@pytest.mark.parametrize("ended_by", ["stop", "cancel"])
def test_the_outcome_of_an_effect_is_kept_whatever_ends_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counter: Counter, ended_by: str
) -> None:
    install(monkeypatch, counter, effect="write")
    project = calling(tmp_path, '"echo", {}')
    uid = project.store.load("job").uid

    def stop() -> bool:
        if counter.keys and ended_by == "cancel" and project.store.cancel_request("job") is None:
            project.store.request_cancel("job", CancelRequest(uid=uid))
        return bool(counter.keys) and ended_by == "stop"

    real = counter.__call__

    def perform(call: Call) -> Raw | WaitError:
        outcome = real(call)
        call.stop()
        return outcome

    monkeypatch.setattr(registry, "catalogue", lambda: {"echo": Tool(run=perform, effect="write")})
    if ended_by == "stop":
        with pytest.raises(KeyboardInterrupt):
            tick(project.store, "job", project.clock, stop=stop)
        assert run(project).status == "completed"
        assert seen(project)["result"] == {"done": 1}
    else:
        report = tick(project.store, "job", project.clock, stop=stop)
        assert getattr(report, "status", None) == "cancelled"
    assert len(counter.keys) == 1
    events = [entry.event for entry in project.store.load("job").timeline]
    assert events.count("tool_done") == 1
