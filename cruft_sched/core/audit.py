"""Lines of the audit log: one JSON object each, chained within a run.

`prev` is the blake3 of the run's line before (its newline left out), null in the first, so that a line that was
cut, moved or edited shows. Runs of many jobs may lie mixed in one file, and `uid` tells jobs of one name apart; a run
that a `run_void` names was never committed, and readers pass over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cruft_sched.core.manifest import AuditHead
from cruft_sched.core.sealing import digest


class Chain:
    """Builds the lines of one run, in order."""

    def __init__(self, run_id: str, uid: str | None = None) -> None:
        """`uid` is the job's, where the run is one of a job."""
        self.run_id = run_id
        self._whose = {"run_id": run_id} if uid is None else {"run_id": run_id, "uid": uid}
        self._lines = 0
        self._prev: str | None = None

    def line(self, kind: str, at_ms: int, fields: Mapping[str, Any]) -> bytes:
        """The next line, newline included."""
        entry = {"type": kind, **self._whose, "seq": self._lines, "at_ms": at_ms, "prev": self._prev}
        data = msgspec.json.encode(entry | dict(fields))
        self._lines += 1
        self._prev = digest(data)
        return data + b"\n"

    @property
    def started(self) -> bool:
        """Whether the run has a line."""
        return self._prev is not None

    @property
    def head(self) -> AuditHead:
        """Where the run stands. Raises ValueError before its first line."""
        if self._prev is None:
            raise ValueError(f"run {self.run_id} has no line")
        return AuditHead(run_id=self.run_id, lines=self._lines, head=self._prev)


def void_line(run_id: str, uid: str, at_ms: int) -> bytes:
    """The line that declares a run void: its driver died before it was committed. `uid` is the job's, as in the run's
    lines: another store's job of the same name has runs of the same id."""
    return msgspec.json.encode({"type": "run_void", "run_id": run_id, "uid": uid, "at_ms": at_ms}) + b"\n"
