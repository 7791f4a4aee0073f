"""The Python runtime of a turn."""

from __future__ import annotations

from cruft_sched.turns.host import Host

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


def prepare(
    host: Host, source: str, context: str, *, scheduled: bool, limits: dict[str, int]
) -> Callable[[], NoReturn]:
    """Everything up to, and without, the agent's first line. The function that is returned runs the agent."""
    raise NotImplementedError
