"""`fail`: always goes wrong, in the same way."""

from __future__ import annotations

from cruft_sched.core.awaits import WaitError
from cruft_sched.tools.tool import Call

MESSAGE = "the tool fail always fails"


def run(_call: Call) -> WaitError:
    """An error that the agent handles as data."""
    return WaitError(message=MESSAGE, disposition="error", tool="fail")
