"""Verify an audit log, and give its runs: which hold, and where the first line is that does not."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator

from msgspec import UNSET, Raw, Struct, UnsetType

from cruft_sched.core.chains import REASONS, Fault, Place, Run, Verifier, Why, head_fault
from cruft_sched.core.manifest import AuditHead, Manifest
from cruft_sched.core.outcomes import InterruptionError
from cruft_sched.core.policy import decode_policy
from cruft_sched.errors import CruftError, DataError
from cruft_sched.ops.project import beside
from cruft_sched.stores.audit_reader import LogReader
from cruft_sched.stores.file import FileStore

_FIRST_LINES = 1000


class Broken(Struct, frozen=True, kw_only=True):
    """The first line that is not right. `line` counts from 1 in its file."""

    file: str
    line: int
    reason: Why


class RunReport(Struct, frozen=True, kw_only=True):
    """One run. `status` is what its `run_end` says, `void`, or `unfinished`; `head` is the hash of its last line."""

    run_id: str
    uid: str | UnsetType = UNSET
    status: str
    void: bool
    lines: int
    head: str | None
    ok: bool
    first_broken: Broken | UnsetType = UNSET
    entries: list[Raw] | UnsetType = UNSET


class JobReport(Struct, frozen=True, kw_only=True):
    """Whether the last run that the store has committed for a job is in the log, to its last line. `reason` and
    `first_broken` say what is not; `fault`, why it cannot be told."""

    job_id: str
    run_id: str | UnsetType = UNSET
    lines: int | UnsetType = UNSET
    head: str | UnsetType = UNSET
    ok: bool
    reason: Why | UnsetType = UNSET
    first_broken: Broken | UnsetType = UNSET
    fault: str | UnsetType = UNSET


class AuditReplay(Struct, frozen=True, kw_only=True):
    """What `cruft agent replay` prints."""

    type: str = "agent_replay"
    schema_version: int = 1
    audit_log: str
    files: list[str]
    lines: int
    ok: bool
    first_broken: Broken | UnsetType = UNSET
    store: str | UnsetType = UNSET
    jobs: list[JobReport] | UnsetType = UNSET
    runs: list[RunReport]


class Replayed:
    """An audit log that was read once. Its lines are read again where they are shown."""

    def __init__(
        self,
        reader: LogReader,
        run_id: str | None = None,
        *,
        keep: bool = False,
        on_progress: Callable[[int, int], None] = lambda _read, _total: None,
    ) -> None:
        """Verify all of the log. `run_id` is the one that is asked for; `keep`: remember where each line is, so that
        `entries` can give them. Raises DataError where the file is no audit log, or has no such run."""
        self._reader = reader
        self._run_id = run_id
        self._verifier = Verifier()
        self._places: dict[int, array[int]] = {}
        total = reader.total_bytes
        read = 0
        for line in reader.lines(lambda done: on_progress(done, total)):
            run = self._verifier.add(Place(line.file, line.number), line.data, whole=line.whole)
            read += 1
            if run is None and self._verifier.entries == 0 and line.data and read >= _FIRST_LINES:
                break
            if run is not None and (keep if run_id is None else run.run_id == run_id):
                self._places.setdefault(id(run), array("Q")).extend((line.file, line.number, line.offset))
        if read and self._verifier.entries == 0:
            raise DataError(f"{reader.path} is no audit log", "give the file that the policy's audit_log names")
        self._first = self._verifier.finish()
        if run_id is not None and not self._verifier.named(run_id):
            raise DataError(f"the audit log {reader.path} has no run {run_id!a}", "without --run-id it shows all runs")

    @property
    def runs(self) -> list[Run]:
        """The runs that were asked for, in the order in which they began."""
        return self._verifier.runs if self._run_id is None else self._verifier.named(self._run_id)

    def entries(self, run: Run) -> Iterator[tuple[str, int, bytes]]:
        """The lines of a run: the file's name, the line's number, and the line."""
        places = self._places.get(id(run), array("Q"))
        for at in range(0, len(places), 3):
            file, number, offset = places[at : at + 3]
            yield self._reader.files[file], number, self._reader.line_at(file, offset)

    def answer(self, jobs: list[JobReport] | None = None, store: str | None = None) -> AuditReplay:
        """All that was found."""
        broken = [job.first_broken for job in jobs or [] if job.first_broken is not UNSET]
        first = self._first and self.broken(self._first)
        return AuditReplay(
            audit_log=self._reader.path,
            files=self._reader.files,
            lines=self._verifier.entries,
            ok=first is None and all(job.ok for job in jobs or []),
            first_broken=first or next(iter(broken), UNSET),
            store=UNSET if store is None else store,
            jobs=UNSET if jobs is None else jobs,
            runs=[self._report(run) for run in self.runs],
        )

    def compare(self, heads: list[Manifest | JobReport]) -> list[JobReport]:
        """Each job's committed head against the log."""
        return [head if isinstance(head, JobReport) else self._compare(head) for head in heads]

    def broken(self, fault: Fault) -> Broken:
        return Broken(file=self._reader.files[fault.place.file], line=fault.place.line, reason=fault.why)

    def _compare(self, manifest: Manifest) -> JobReport:
        head = manifest.audit
        if head is None:
            return JobReport(job_id=manifest.job_id, ok=True)
        fault = self._void_of(manifest) or head_fault(self._verifier.named(head.run_id), manifest.uid, head)
        return _job_report(
            manifest.job_id,
            head,
            reason=fault.why if isinstance(fault, Fault) else fault,
            broken=self.broken(fault) if isinstance(fault, Fault) else None,
        )

    def _void_of(self, manifest: Manifest) -> Fault | None:
        """A run that is declared void, and that the job's timeline says was committed."""
        failed = not isinstance(manifest.error, InterruptionError)  # else it failed by a run that is void
        ends = ("suspended", "completed", *(("failed",) if failed else ()))
        for entry in manifest.timeline:
            mine = [run for run in self._verifier.named(entry.turn_id or "") if run.uid == manifest.uid]
            if entry.event in ends and mine and mine[-1].void:
                return Fault(mine[-1].last, "void")
        return None

    def _report(self, run: Run) -> RunReport:
        asked = self._run_id is not None
        return RunReport(
            run_id=run.run_id,
            uid=UNSET if run.uid is None else run.uid,
            status="void" if run.void else run.status or "unfinished",
            void=run.void,
            lines=run.lines,
            head=run.head,
            ok=run.broken is None,
            first_broken=UNSET if run.broken is None else self.broken(run.broken),
            entries=[Raw(line) for _, _, line in self.entries(run)] if asked else UNSET,
        )


def committed_heads(store: FileStore, log_path: str) -> list[Manifest | JobReport]:
    """The jobs of a store that write into this log, or what keeps one from being read. They are read before the log,
    so that the log has all of them."""
    heads: list[Manifest | JobReport] = []
    for job_id in store.job_ids():
        try:
            manifest = store.load(job_id)
            policy = decode_policy(store.get_object(manifest.policy_hash))
        except CruftError as error:
            heads.append(JobReport(job_id=job_id, ok=False, fault=str(error)))
            continue
        if os.path.realpath(beside(manifest.policy_path, policy.audit_log)) == os.path.realpath(log_path):
            heads.append(manifest)
    return heads


def sentence(broken: Broken) -> str:
    """What is wrong, for people."""
    return f"{broken.file}, line {broken.line}: it {REASONS[broken.reason]}"


def job_sentence(job: JobReport) -> str:
    """What is wrong with a job's last run, for people."""
    if job.fault is not UNSET:
        return f"job {job.job_id} cannot be compared: {job.fault}"
    where = f" ({sentence(job.first_broken)})" if job.first_broken is not UNSET else ""
    what = "is not in the log" if job.reason == "absent" else "is not in the log as it was committed"
    return f"job {job.job_id}: run {job.run_id} {what}{where}"


def _job_report(job_id: str, head: AuditHead, reason: Why | None, broken: Broken | None) -> JobReport:
    return JobReport(
        job_id=job_id,
        run_id=head.run_id,
        lines=head.lines,
        head=head.head,
        ok=reason is None,
        reason=UNSET if reason is None else reason,
        first_broken=UNSET if broken is None else broken,
    )
