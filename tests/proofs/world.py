"""A project and its store in a folder that can be put back, commands in processes of their own, and what must hold."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cruft_sched.core.manifest import Manifest
from cruft_sched.errors import UnknownJobError
from cruft_sched.ops.audit_replay import Replayed, committed_heads
from cruft_sched.ops.show_token import show_token
from cruft_sched.stores.audit_reader import LogReader
from cruft_sched.stores.file import FileStore
from tests.proofs.scenarios import CANCEL, JS_AGENT, PY_AGENT, START, TICK, WAITS, Killed, Scenario, Step

MOST_COMMANDS = 12
"""So many must bring any job to its end."""

_IN_A_STORE = ["jobs", "key", "lock", "objects"]
_SETTLED = ("fired", "tool_done", "answered", "timed_out")


@dataclass(frozen=True)
class Done:
    """A command that came to its end, or was killed (then `code` is the signal's, negative)."""

    code: int
    out: str
    err: str
    operations: list[str]
    readings: int
    """How often it looked at the clock."""


class Zygote:
    """Where the commands are forked from."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.proofs.zygote"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, request: dict[str, Any]) -> Done:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        seen = json.loads(answer["seen"] or '{"operations": [], "readings": 0}')
        return Done(answer["code"], answer["out"], answer["err"], **seen)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


class World:
    """One scenario, in one language."""

    def __init__(self, folder: Path, scenario: Scenario, language: str, zygote: Zygote) -> None:
        self._now, self._then = folder / "now", folder / "then"
        self._scenario = scenario
        self._zygote = zygote
        self._now.mkdir(parents=True)
        name, source = ("agent.js", JS_AGENT) if language == "javascript" else ("agent.py", PY_AGENT)
        wait = WAITS[scenario.wait][language == "python"]
        (self._now / name).write_text(source % (scenario.pad, wait))
        policy = {"schema_version": 1, "agent": name, "audit_log": "audit.jsonl", **scenario.policy}
        (self._now / "agent-policy.json").write_text(json.dumps(policy))
        self._tokens: dict[str, str] = {}
        self._went_on = False
        for job_id in scenario.jobs:
            for step in scenario.before:
                self._take(step, job_id)
        self._now.rename(self._then)

    @property
    def store(self) -> FileStore:
        root = self._now / "store"
        os.stat(root / "jobs")
        return FileStore(str(root))

    def restore(self) -> None:
        """Put everything back to where the command under attack is next."""
        shutil.rmtree(self._now, ignore_errors=True)
        shutil.copytree(self._then, self._now, symlinks=True)

    def attack(self, fault: dict[str, Any] | None = None, **more: Any) -> Done:
        """Run the command, from the start."""
        self.restore()
        return self.run(self._scenario.command, self._scenario.jobs[0], fault=fault, **more)

    def run(self, arguments: tuple[str, ...], job_id: str, **more: Any) -> Done:
        """Run a command line of `cruft agent schedule`, or of `cruft agent` where `group` is empty, in a process of
        its own."""
        group = more.pop("group", ("schedule",))
        names = {"store": str(self._now / "store"), "policy": str(self._now / "agent-policy.json"), "job": job_id}
        names |= {"log": str(self._now / "audit.jsonl"), "session": str(self._now / "session.json")}
        if "{token}" in arguments:
            names["token"] = self._token(job_id)
        request: dict[str, Any] = {
            "arguments": ["agent", *group, *(argument.format(**names) for argument in arguments)]
        }
        if self._scenario.effects:
            request["effects"] = str(self._now / "effects")
        return self._zygote.run(request | {name: value for name, value in more.items() if value is not None})

    def finish(self, **more: Any) -> list[Manifest]:
        """Bring every job to its end, with fresh processes, and return them."""
        self._went_on = False
        return [self._finish(job_id, **more) for job_id in self._scenario.jobs]

    def check(self, jobs: list[Manifest]) -> None:
        """Assert all that must hold, whatever was done to the command."""
        for job in jobs:
            self._check_job(job)
            self._check_effects(job)
        self._check_log()
        self._check_once_more(jobs)
        self._check_folders(jobs)

    def _take(self, step: Step, job_id: str) -> None:
        if isinstance(step, Killed):
            fault = {"what": "kill-after", "number": step.rename - 1, "name": "rename"}
            assert self.run(step.arguments, job_id, fault=fault).code == -9
        else:
            done = self.run(step, job_id)
            assert done.code == 0, done.err

    def _token(self, job_id: str) -> str:
        if job_id not in self._tokens:
            self._tokens[job_id] = show_token(self.store, job_id).token
        return self._tokens[job_id]

    def _finish(self, job_id: str, **more: Any) -> Manifest:
        for _ in range(MOST_COMMANDS):
            job = self._load(job_id)
            if job is not None and job.terminal:
                return job
            done = self.run(self._scenario.command if job is None else self._next(job), job_id, **more)
            self._went_on = True
            assert done.code in (0, 70), done.err
            assert done.err.count("\n") <= 1, done.err
        raise AssertionError(f"{job_id} does not come to its end: {self.store.load(job_id)}")

    def _load(self, job_id: str) -> Manifest | None:
        """The job; None where a start has not come that far."""
        if self._scenario.command[0] == "start":
            with suppress(UnknownJobError, FileNotFoundError):
                return self.store.load(job_id)
            return None
        return self.store.load(job_id)

    def _next(self, job: Manifest) -> tuple[str, ...]:
        if self._scenario.status == "cancelled":
            return CANCEL
        if job.question is not None and self._scenario.answered:
            return ("input", "{job}", "--store", "{store}", "--token", "{token}", "--json", "7")
        return TICK

    def _check_job(self, job: Manifest) -> None:
        scenario = self._scenario
        assert job.status == scenario.status, job
        settled = tuple(entry.event for entry in job.timeline if entry.event in _SETTLED)
        assert settled == scenario.settled, job.timeline
        times = [entry.at_ms for entry in job.timeline]
        assert times == sorted(times)
        if job.status == "completed":
            assert bytes(job.result) == b"2", job  # the state of each turn was kept once
            assert job.budget_ledger.events == len(scenario.events)

    def _check_effects(self, job: Manifest) -> None:
        if not self._scenario.effects:
            return
        path = self._now / "effects"
        had = path.read_text().splitlines() if path.exists() else []
        assert len(had) == len(set(had)), "an effect was repeated"
        assert len(had) <= len(self._scenario.jobs)
        assert job.status == "completed"

    def _check_log(self) -> None:
        """Every chain holds, to the heads that the store has committed, and the committed runs say what was emitted."""
        log = str(self._now / "audit.jsonl")
        heads = committed_heads(self.store, log)
        if not os.path.exists(log):
            assert all(isinstance(head, Manifest) and head.audit is None for head in heads), heads
            return
        with LogReader(log) as reader:
            replayed = Replayed(reader, keep=True)
            answer = replayed.answer(replayed.compare(heads))
            assert answer.ok, answer
            committed = [run for run in replayed.runs if not run.void]
            lines = [json.loads(line) for run in committed for _, _, line in replayed.entries(run)]
        for job_id in self._scenario.jobs:
            of_job = [line for line in lines if line["run_id"].startswith(f"{job_id}/")]
            emitted = tuple(line["event"]["kind"] for line in of_job if line["type"] == "emit")
            assert emitted == self._scenario.events, (job_id, emitted)

    def _check_once_more(self, jobs: list[Manifest]) -> None:
        """The same command, given once more, changes nothing of a job that is over."""
        command = CANCEL if self._scenario.status == "cancelled" else self._scenario.command
        for job in jobs:
            done = self.run(command, job.job_id)
            assert done.code in (0, 73, 75, 76), done
            assert self.store.load(job.job_id) == job

    def _check_folders(self, jobs: list[Manifest]) -> None:
        """Nothing is left behind: neither a temporary, nor a note."""
        store = self._now / "store"
        if not self._went_on and len(os.listdir(store)) > len(_IN_A_STORE):  # it was killed in its last steps
            assert self.run(START, "last").code == 0
        assert sorted(os.listdir(store)) == _IN_A_STORE
        for job in jobs:
            assert sorted(os.listdir(store / "jobs" / job.job_id)) == ["lock", "manifest.json"]
        left = {path.name for path in self._now.iterdir() if not path.name.startswith("audit.jsonl")}
        assert left - {"effects", "agent.js", "agent.py"} == {"agent-policy.json", "store"}


@contextmanager
def zygote() -> Iterator[Zygote]:
    """A process to fork from, for the length of a `with` block."""
    process = Zygote()
    try:
        yield process
    finally:
        process.close()
