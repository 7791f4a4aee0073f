"""Advance every job of a store that can move, each by one turn, in the order in which they became due."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed

from msgspec import Struct

from cruft_sched.clock import Clock
from cruft_sched.core.manifest import Manifest
from cruft_sched.core.ready import Due, Sleeping, Unanswered, readiness
from cruft_sched.errors import (
    BusyError,
    CruftError,
    DataError,
    InternalError,
    RefusedError,
    UnavailableError,
    UnknownJobError,
    UsageError,
    WrongStatusError,
)
from cruft_sched.ops.reports import NotReady, OverBudget, Report
from cruft_sched.ops.tick import tick
from cruft_sched.stores.file import FileStore

LASTING = (DataError, RefusedError, UnavailableError)
"""Faults that the next minute will not mend: each is said once, until the job goes on."""

_POLL_S = 1.0


class SweepOptions(Struct, frozen=True, kw_only=True):
    """`workers` turns at a time; at most `max_jobs` in all; `drain`: go on until nothing can move, or for `for_ms`,
    and wait for timers that fall within it."""

    workers: int = 1
    max_jobs: int | None = None
    drain: bool = False
    for_ms: int | None = None


class SweepReport(Struct, frozen=True, kw_only=True):
    """The line that closes a sweep: turns taken, and those that failed or expired their job; jobs that a fault keeps;
    jobs that another process had."""

    type: str = "agent_scheduler_sweep"
    schema_version: int = 1
    store: str
    moved: int
    failed: int
    blocked: int
    busy: int
    duration_ms: int


class Sweep:
    """One sweep. `on_report` takes what became of a job that moved, `on_fault` a job's id and the fault that keeps it,
    said for the first time; both are called by one thread at a time."""

    def __init__(
        self,
        store: FileStore,
        clock: Clock,
        options: SweepOptions,
        on_report: Callable[[Report], None],
        on_fault: Callable[[str, CruftError], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._options = options
        self._on_report = on_report
        self._on_fault = on_fault
        self._stop = threading.Event()
        self._kept: set[str] = set()
        self._next_ms: int | None = None
        self._busy: set[str] = set()
        self._moved = self._failed = self._blocked = 0
        self._slots = options.max_jobs
        self._slot_lock = threading.Lock()

    def run(self) -> SweepReport:
        """Sweep. Raises what breaks the store as a whole; KeyboardInterrupt, with the turns in flight given back."""
        self._store.store_key()  # a lost key is one fault, not one a job
        began = time.monotonic()
        until = None if self._options.for_ms is None else began + self._options.for_ms / 1000
        while True:
            due, before = self._due(), (self._moved, len(self._kept))
            if due:
                self._tick_all(due, until)
            if not self._options.drain or self._spent():
                break
            if not due and not self._wait_for_next(until):
                break
            if due and before == (self._moved, len(self._kept)) and not self._wait_for_others(until):
                break
            if until is not None and time.monotonic() >= until:
                break
        return SweepReport(
            store=self._store.root,
            moved=self._moved,
            failed=self._failed,
            blocked=self._blocked,
            busy=len(self._busy),
            duration_ms=int((time.monotonic() - began) * 1000),
        )

    def _spent(self) -> bool:
        return self._options.max_jobs is not None and self._moved >= self._options.max_jobs

    def _due(self) -> list[str]:
        """The jobs that can move, the longest due first; and when the next one will."""
        now = self._clock.now_ms()
        due: list[tuple[int, str]] = []
        self._next_ms = None
        for job_id in self._store.job_ids():
            if job_id in self._kept:
                continue
            manifest = self._look(job_id)
            if manifest is None:
                continue
            match readiness(manifest, now):
                case Due(since_ms=since):
                    due.append((since, job_id))
                case Sleeping(deadline_ms=at) | Unanswered(deadline_ms=int(at)):
                    self._next_ms = at if self._next_ms is None else min(at, self._next_ms)
        return [job_id for _, job_id in sorted(due)]

    def _look(self, job_id: str) -> Manifest | None:
        try:
            return self._store.load(job_id)
        except UnknownJobError:
            return None  # deleted since the folder was listed
        except UsageError:
            return None  # a folder that no job can have made; `list` names it
        except CruftError as fault:
            self._keep(job_id, fault)
            return None

    def _tick_all(self, due: list[str], until: float | None) -> None:
        with ThreadPoolExecutor(self._options.workers) as pool:
            begun = {pool.submit(self._tick, job_id, until): job_id for job_id in due}
            try:
                for done in as_completed(begun):
                    self._take(begun[done], done)
            except BaseException:
                self._stop.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _tick(self, job_id: str, until: float | None) -> Report | None:
        """One tick, unless the time is over: what has begun is finished, nothing new is begun."""
        if self._stop.is_set() or (until is not None and time.monotonic() >= until) or not self._take_slot():
            return None
        report: Report | None = None
        try:
            report = tick(self._store, job_id, self._clock, stop=self._stop.is_set)
        finally:
            if report is None or isinstance(report, NotReady):
                self._give_slot()  # it did not move: another one may
        return report

    def _take_slot(self) -> bool:
        """One of the turns that `max_jobs` allows. False where all are taken."""
        with self._slot_lock:
            if self._slots is None:
                return True
            self._slots -= 1
            if self._slots < 0:
                self._slots = 0
                return False
            return True

    def _give_slot(self) -> None:
        with self._slot_lock:
            self._slots = None if self._slots is None else self._slots + 1

    def _take(self, job_id: str, done: Future[Report | None]) -> None:
        try:
            report = done.result()
        except UnknownJobError:
            pass  # deleted since the look
        except (BusyError, WrongStatusError):
            self._busy.add(job_id)  # another process has it, or had it since the look
        except CruftError as fault:
            self._keep(job_id, fault)
        except Exception as bug:  # one job's, and no reason to let the others wait
            self._keep(job_id, InternalError(bug))
        else:
            self._count(report)

    def _count(self, report: Report | None) -> None:
        if report is None or isinstance(report, NotReady):
            return
        self._moved += 1
        self._failed += isinstance(report, OverBudget) or report.error is not None
        self._on_report(report)

    def _keep(self, job_id: str, fault: CruftError) -> None:
        """A job that a fault keeps from moving. It is not tried again in this sweep."""
        self._kept.add(job_id)
        self._blocked += 1
        if not isinstance(fault, LASTING) or self._store.note_blocked(job_id, str(fault)):
            self._on_fault(job_id, fault)

    def _wait_for_others(self, until: float | None) -> bool:
        """What is due is in other hands (or the clock was set back). Look again, if the sweep has an end."""
        if until is None:
            return False
        self._stop.wait(_POLL_S / 10)
        return True

    def _wait_for_next(self, until: float | None) -> bool:
        """Wait for the next timer, if it falls within the sweep. False: there is nothing left to wait for."""
        if self._next_ms is None:
            return False
        left_s = (self._next_ms - self._clock.now_ms()) / 1000
        if until is None or time.monotonic() + left_s >= until:
            return False
        self._stop.wait(min(max(left_s, 0.001), _POLL_S))
        return True
