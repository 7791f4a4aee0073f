"""Verify the chains of an audit log, line by line, in the memory of one small record a run.

A line follows from the run's line before when its `seq` is the next and its `prev` is that line's hash. What is named
is the first line that is not as it was written, or that stands where another should:

- an edited line shows in the next one, whose `prev` no longer fits. Where that one in turn is confirmed by the line
  after it, the edited one is named; where it is not, it was edited itself;
- where lines are missing, the line after them is named (also where the first line was made one of another run); a line
  that stands there twice is named at its second place;
- a line that cannot be read is named, unless it is what a crash leaves: its run was declared void afterwards.

Of a void run nothing is judged: a power cut leaves anything of what nobody had committed. The last lines of a run can
be cut, and its last line can be edited, without a trace in the log: only who knows its head sees that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct

from cruft_sched.core.manifest import AuditHead
from cruft_sched.core.sealing import digest

Why = Literal["edited", "missing", "reordered", "duplicated", "after_end", "torn", "cut", "void", "absent"]

REASONS: dict[Why, str] = {
    "edited": "was edited, or the line after it",
    "missing": "does not follow the run's line before: lines between them are missing",
    "reordered": "stands before lines that it should follow",
    "duplicated": "repeats a line of its run",
    "after_end": "follows the end of its run",
    "torn": "is torn or no line of an audit log",
    "cut": "is the run's last, and the store has committed more",
    "void": "is of a run that is declared void, and the store has committed it",
    "absent": "is missing: the store has committed the run, and the log has no line of it",
}
"""What is wrong with a line, as the end of a sentence."""

MAX_DAMAGED = 10_000
_RUN_ID = re.compile(rb'"run_id":("(?:[^"\\]|\\.)*")(?:,"uid":("(?:[^"\\]|\\.)*"))?')


class Place(Struct, frozen=True, order=True):
    """A line: the file, counted from the oldest, and its number in it, counted from 1."""

    file: int
    line: int


class Fault(Struct, frozen=True):
    """A line that is not right, and why."""

    place: Place
    why: Why


class Entry(Struct, frozen=True):
    """What is read of a line."""

    type: str
    run_id: str
    seq: int | None = None
    prev: str | None = None
    at_ms: int | None = None
    uid: str | None = None
    status: str | None = None


class Run:
    """What is known of one run, so far."""

    __slots__ = ("ended", "fault", "head", "last", "lines", "missing", "run_id", "status", "suspect", "uid", "void")

    def __init__(self, run_id: str, uid: str | None, place: Place) -> None:
        self.run_id = run_id
        self.uid = uid
        self.lines = 0
        self.head: str | None = None
        self.last = place
        self.ended = False
        self.status: str | None = None
        self.void = False
        self.fault: Fault | None = None
        self.suspect: Place | None = None
        """A line that the next one does not follow: one of the two was edited."""
        self.missing = range(0)
        """The numbers that should have come before the line at fault."""

    @property
    def broken(self) -> Fault | None:
        """What is wrong with the run. A void one is passed over."""
        return None if self.void else self.fault

    def blame(self, place: Place, why: Why) -> None:
        """Keep the first fault."""
        if self.suspect is not None:
            place, why, self.suspect = self.suspect, "edited", None
        if self.fault is None or place < self.fault.place:
            self.fault = Fault(place, why)


class _Damage(Struct, frozen=True):
    place: Place
    run_id: str | None
    uid: str | None

    def may_be_of(self, run: Run) -> bool:
        return self.run_id in (run.run_id, None) and self.uid in (run.uid, None)


_decoder = msgspec.json.Decoder(Entry)


class Verifier:
    """Takes the lines of a log, in order. `finish` says what is wrong that only the end shows."""

    def __init__(self) -> None:
        self._by_id: dict[str, list[Run]] = {}
        self.runs: list[Run] = []
        self.entries = 0
        self._damaged: list[_Damage] = []
        self._last_void: Place | None = None

    def add(self, place: Place, line: bytes, *, whole: bool = True) -> Run | None:
        """Take a line, newline left out; `whole`: it had one. Returns the run that it belongs to."""
        if not line:
            return None
        try:
            entry = _decoder.decode(line) if whole else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            entry = None
        if entry is None:
            self._damage(place, line)
            return None
        self.entries += 1
        if entry.type == "run_void" and entry.seq is None:  # one with a number was another line once
            return self._void(entry, place)
        run = self._run_of(entry, place)
        _judge(run, entry, place, self._damage_between)
        _extend(run, entry, line, place)
        return run

    def finish(self) -> Fault | None:
        """The first fault of all, in runs or outside of them."""
        for run in self.runs:
            if run.suspect is not None:
                run.blame(run.suspect, "edited")
        loose = [fault for damage in self._damaged if (fault := self._settle(damage)) is not None]
        faults = [run.broken for run in self.runs if run.broken is not None] + loose
        return min(faults, key=lambda fault: fault.place, default=None)

    def named(self, run_id: str) -> list[Run]:
        """The runs of an id: each store has its own."""
        return self._by_id.get(run_id, [])

    def _new(self, entry: Entry, place: Place) -> Run:
        run = Run(entry.run_id, entry.uid, place)
        self._by_id.setdefault(entry.run_id, []).append(run)
        self.runs.append(run)
        return run

    def _run_of(self, entry: Entry, place: Place) -> Run:
        """The run a line belongs to. One that begins after a run of its name was declared void is another: the store
        went back to a backup."""
        mine = [run for run in self.named(entry.run_id) if run.uid == entry.uid]
        begins = entry.seq == 0 and entry.prev is None
        if mine and not (begins and mine[-1].void):
            return mine[-1]
        run = self._new(entry, place)
        if not begins:
            run.missing = range(entry.seq or 0)
            run.blame(place, "missing")
        return run

    def _void(self, entry: Entry, place: Place) -> Run:
        self._last_void = place
        mine = [run for run in self.named(entry.run_id) if run.uid == entry.uid] or [self._new(entry, place)]
        for run in mine:
            run.void = True
        return mine[-1]

    def _damage(self, place: Place, line: bytes) -> None:
        if len(self._damaged) < MAX_DAMAGED:
            found = _RUN_ID.search(line)
            run_id, uid = (_text(part) for part in found.groups()) if found else (None, None)
            self._damaged.append(_Damage(place, run_id, uid))

    def _damage_between(self, run: Run, place: Place) -> Place | None:
        """A line that cannot be read, where one of the run's is missing."""
        for damage in self._damaged:
            if run.last < damage.place < place and damage.may_be_of(run):
                return damage.place
        return None

    def _settle(self, damage: _Damage) -> Fault | None:
        """Blame a line that cannot be read on its run. The fault itself, where that is not known."""
        if damage.run_id is None:
            passed = self._last_void is not None and damage.place < self._last_void
            return None if passed else Fault(damage.place, "torn")
        mine = [run for run in self.named(damage.run_id) if damage.may_be_of(run)]
        if not mine:
            return Fault(damage.place, "torn")
        if not any(run.void for run in mine):
            mine[-1].blame(damage.place, "torn")
        return None


def _text(part: bytes | None) -> str | None:
    try:
        return None if part is None else msgspec.json.decode(part, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def head_fault(runs: list[Run], uid: str, committed: AuditHead) -> Fault | Why | None:
    """What is wrong with the runs of an id, where a store has committed one of them with this head."""
    mine = [run for run in runs if run.uid == uid]
    if not mine or all(run.lines == 0 for run in mine):
        return "absent"
    if any((run.lines, run.head, run.void) == (committed.lines, committed.head, False) for run in mine):
        return None
    run = mine[-1]
    if run.void:
        return Fault(run.last, "void")
    if run.lines < committed.lines:
        return run.fault or Fault(run.last, "cut")
    return run.fault or Fault(run.last, "after_end" if run.lines > committed.lines else "edited")


def _judge(run: Run, entry: Entry, place: Place, damage_between: Callable[[Run, Place], Place | None]) -> None:
    """Say whether a line follows from its run as it stands."""
    if run.fault is not None:
        if entry.seq is not None and entry.seq in run.missing and run.fault.why == "missing":
            run.fault = Fault(run.fault.place, "reordered")
        return
    follows = entry.prev == run.head
    if run.ended and entry.seq == run.lines and not follows:  # that it is the end is what was edited
        run.blame(run.last, "edited")
    elif run.ended and (follows or entry.seq is None or entry.seq >= run.lines):
        run.blame(place, "after_end")
    elif entry.seq == run.lines:
        _judge_link(run, place, follows=follows)
    elif follows or entry.seq is None:
        run.blame(place, "edited")
    elif entry.seq < run.lines:
        run.blame(place, "duplicated")
    else:
        damaged = damage_between(run, place)
        run.missing = range(run.lines, entry.seq)
        if damaged is not None:
            run.blame(damaged, "torn")
        else:
            run.blame(place, "missing")


def _judge_link(run: Run, place: Place, *, follows: bool) -> None:
    if follows and run.suspect is None:
        return
    if follows:  # the line before is as it was, so the one before that is not
        run.blame(place, "edited")
    elif run.suspect is not None:  # it fits on neither side
        run.suspect = None
        run.blame(run.last, "edited")
    else:
        run.suspect = run.last


def _extend(run: Run, entry: Entry, line: bytes, place: Place) -> None:
    run.lines += 1
    run.head = digest(line)
    run.last = place
    if entry.type == "run_end":
        run.ended, run.status = True, entry.status
