"""Whether a job can move now, from its manifest alone."""

from __future__ import annotations

from msgspec import Struct

from cruft_sched.core.awaits import InputAwait, Retrying, TimerAwait
from cruft_sched.core.manifest import Manifest


class Due(Struct, frozen=True):
    """A tick would move it. `since_ms` is since when (UTC epoch ms)."""

    since_ms: int


class Sleeping(Struct, frozen=True):
    """It moves at `deadline_ms`, and not before."""

    deadline_ms: int


class Unanswered(Struct, frozen=True):
    """It waits for a person, until `deadline_ms` if that is given."""

    deadline_ms: int | None


class Over(Struct, frozen=True):
    """It has come to its end."""


Readiness = Due | Sleeping | Unanswered | Over


def readiness(manifest: Manifest, now_ms: int) -> Readiness:
    """Where a job stands at `now_ms`. A job that is running counts as due: its driver may have died."""
    if manifest.terminal:
        return Over()
    wait = manifest.wait
    if wait is None:
        return Due(manifest.updated_ms)
    if wait.done is not None:
        return Due(wait.done.at_ms)
    match wait:
        case TimerAwait():
            deadline = wait.payload.deadline_ms
            return Due(deadline) if deadline <= now_ms else Sleeping(deadline)
        case InputAwait():
            limit = wait.payload.deadline_ms
            return Due(limit) if limit is not None and limit <= now_ms else Unanswered(limit)
        case _ if isinstance(wait.settlement, Retrying):
            again = wait.settlement.next_ms
            return Due(again) if again <= now_ms else Sleeping(again)
        case _:
            return Due(wait.created_ms)
