"""When a turn in flight is to be killed: its job was cancelled, or its driver was told to end."""

from __future__ import annotations

from collections.abc import Callable

from cruft_sched.core.manifest import Manifest
from cruft_sched.core.outcomes import Stopped
from cruft_sched.stores.file import HeldJob

Stop = Callable[[], bool]
"""Whether the driver was told to end."""


TOLD_TO_END = "the driver was told to end"


def never() -> bool:
    """A driver that nobody tells to end, but by a signal."""
    return False


def stopper(held: HeldJob, manifest: Manifest, stop: Stop) -> Callable[[], Stopped | None]:
    """What a turn of this job is asked a few times a second."""

    def stopped() -> Stopped | None:
        if held.cancel_seen(manifest):
            return Stopped(reason="cancelled")
        return Stopped(reason="interrupted") if stop() else None

    return stopped
