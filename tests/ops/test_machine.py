"""A state machine that does to one store whatever can be done to it, in any order: ticks, sweeps, answers, cancels,
deletions and new starts, a clock that jumps both ways, and a power cut before any operation on the disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cruft_sched.core.awaits import InputAwait
from cruft_sched.core.manifest import TERMINAL, Manifest
from cruft_sched.errors import CruftError, RefusedError, UnknownJobError
from cruft_sched.ops.cancel import cancel
from cruft_sched.ops.show_token import pending_token
from cruft_sched.ops.submit_input import submit_input
from cruft_sched.ops.sweep import Sweep, SweepOptions
from cruft_sched.ops.tick import tick
from cruft_sched.stores.file import FileStore
from tests.seam import Seam, before
from tests.support import Project

MAX_TURNS = 7
AGENT = """
const n = (state.get("n") ?? 0) + 1, r = context.scheduler_resume;
state.set("n", n);
if (r) emit({await: r.await.id, outcome: r.result ?? null, error: r.error?.disposition ?? null});
if (n % 3 === 1) scheduler.waitForInput("go on", {n}, n === 4 ? {timeout_ms: 5000} : {});
if (n % 3 === 2) scheduler.callTool("echo", {n});
if (n < 6) scheduler.sleep(1000);
close(n);
"""
JOBS = st.sampled_from(["a", "b"])
SETTLING = ("fired", "tool_done", "answered", "timed_out")
CUTS = st.one_of(st.none(), st.none(), st.integers(0, 40))


class PowerCut(BaseException):
    """The power is gone: nothing that would still be written is."""


class Machine(RuleBasedStateMachine):
    """What is remembered beside the store is only what the checks need."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="cruft-machine-"))
        self.project = Project(
            self.folder / "project", AGENT, tools=["echo"], budgets={"max_scheduler_turns": MAX_TURNS}
        )
        self.tokens: dict[str, set[str]] = {"a": set(), "b": set()}
        self.used: set[str] = set()
        self.ended: dict[str, str] = {}

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @initialize()
    def first_jobs(self) -> None:
        for job_id in ("a", "b"):
            self.project.start(job_id)

    @property
    def store(self) -> FileStore:
        return self.project.store

    def attempt(self, cut: int | None, action: Callable[[], Any]) -> Any:
        """Do something, with the power cut before its `cut`-th operation on the disk, and all after it lost too."""

        def fault(number: int, _name: str) -> None:
            if cut is not None and number >= cut:
                raise PowerCut

        try:
            with Seam(before(fault)):
                return action()
        except (PowerCut, CruftError) as error:
            return error

    @rule(jobs=st.lists(st.tuples(JOBS, CUTS), min_size=1, max_size=6))
    def go_on(self, jobs: list[tuple[str, int | None]]) -> None:
        """Whatever is next for some jobs: an answer, or the tick after the deadline."""
        for job_id, cut in jobs:
            manifest = self.store.load(job_id)
            if manifest.status == "awaiting_input" and manifest.awaits[0].done is None:
                self.answer(job_id, cut, defer=False)
            elif not manifest.terminal:
                self.project.clock.now += 1000
                self.tick(job_id, cut)

    @rule(job_id=JOBS, cut=CUTS)
    def tick(self, job_id: str, cut: int | None) -> None:
        self.attempt(cut, lambda: tick(self.store, job_id, self.project.clock))

    @rule(cut=CUTS)
    def sweep(self, cut: int | None) -> None:
        def swept() -> object:
            ignore: Callable[..., None] = lambda *_: None  # noqa: E731  # two callbacks that do nothing
            return Sweep(self.store, self.project.clock, SweepOptions(), ignore, ignore).run()

        self.attempt(cut, swept)

    def answering(self, job_id: str, token: str, *, defer: bool = False) -> Callable[[], Any]:
        return lambda: submit_input(self.store, job_id, token, b"true", self.project.clock, defer=defer)

    @rule(job_id=JOBS, cut=CUTS, defer=st.booleans())
    def answer(self, job_id: str, cut: int | None, defer: bool) -> None:
        manifest = self.store.load(job_id)
        pending = pending_token(self.store, manifest)
        if pending is None:
            return
        self.tokens[job_id].add(pending.token)
        done = self.attempt(cut, self.answering(job_id, pending.token, defer=defer))
        if not isinstance(done, BaseException):
            assert pending.token not in self.used, "a token worked twice"
            self.used.add(pending.token)

    @rule(job_id=JOBS)
    def answer_with_an_old_token(self, job_id: str) -> None:
        before = self.project.manifest_file(job_id).read_bytes()
        manifest = self.store.load(job_id)
        pending = pending_token(self.store, manifest)
        to_be_cancelled = self.store.cancel_request(job_id, manifest.uid) is not None and not manifest.terminal
        tried = [token for token in self.tokens["a"] | self.tokens["b"] if pending is None or token != pending.token]
        for token in tried:
            refused = self.attempt(None, self.answering(job_id, token))
            assert isinstance(refused, CruftError)
            if not to_be_cancelled:
                assert pending is None or isinstance(refused, RefusedError) or "ended at" in str(refused)
        if tried and to_be_cancelled:  # whoever takes the lock applies what a cancel that was cut off had asked for
            assert self.store.load(job_id).status == "cancelled"
        else:
            assert self.project.manifest_file(job_id).read_bytes() == before

    @rule(job_id=JOBS, cut=CUTS, sure=st.integers(0, 3))
    def cancel(self, job_id: str, cut: int | None, sure: int) -> None:
        if sure == 0:  # not too often: a cancelled job has no more to show
            self.attempt(cut, lambda: cancel(self.store, job_id, self.project.clock))

    @rule(job_id=JOBS)
    def delete_and_start_again(self, job_id: str) -> None:
        if self.store.load(job_id).status in TERMINAL:
            shutil.rmtree(self.store.folder(job_id))
            self.ended.pop(job_id, None)
            self.project.start(job_id)

    @rule(ms=st.sampled_from([1, 999, 1000, 5000, 86_400_000, -1000, -3_600_000]))
    def the_clock_jumps(self, ms: int) -> None:
        self.project.clock.now += ms

    @invariant()
    def every_manifest_holds(self) -> None:
        for job_id in ("a", "b"):
            try:
                manifest = self.store.load(job_id)  # verifies the seal
            except UnknownJobError:
                continue  # before the first start
            self.check(job_id, manifest)

    def check(self, job_id: str, manifest: Manifest) -> None:
        assert manifest.turn_cursor <= MAX_TURNS
        assert manifest.budget_ledger.turns == manifest.turn_cursor
        times = [entry.at_ms for entry in manifest.timeline]
        assert times == sorted(times)
        if job_id in self.ended:
            assert self.ended[job_id] == f"{manifest.uid} {manifest.status}", "something left the end"
        if manifest.terminal:
            assert manifest.awaits == ()
            self.ended[job_id] = f"{manifest.uid} {manifest.status}"
        settled = [
            entry for entry in manifest.timeline if entry.event in ("fired", "tool_done", "answered", "timed_out")
        ]
        suspended = [entry for entry in manifest.timeline if entry.event == "suspended"]
        assert len(suspended) - 1 <= len(settled) <= len(suspended), "an await was settled twice"
        for wait in manifest.awaits:
            if isinstance(wait, InputAwait) and wait.done is not None and wait.done.error is None:
                assert bytes(wait.done.result) == b"true"

    @invariant()
    def every_wait_had_one_outcome(self) -> None:
        outcomes: dict[tuple[str, str], set[str]] = {}
        uid = ""
        for line in self.project.audit():
            if line["type"] == "run_start":
                uid = line["uid"]
            if line["type"] == "emit":
                event = line["event"]
                outcomes.setdefault((uid, event["await"]), set()).add(repr((event["outcome"], event["error"])))
        assert all(len(seen) == 1 for seen in outcomes.values()), outcomes


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
