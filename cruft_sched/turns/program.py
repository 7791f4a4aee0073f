"""What a turn's process is to run. The child reads this file, so it imports nothing that is slow."""

from __future__ import annotations


class Program:
    """An agent, and what it may use. `context` is JSON; `modules` are sources by their specifiers; `entry` is the one
    that is imported before the agent's first line, or empty; `limits` are the policy's budgets."""

    def __init__(
        self,
        source: str,
        context: str,
        entry: str = "",
        *,
        scheduled: bool,
        limits: dict[str, int],
        modules: dict[str, str],
    ) -> None:
        self.source = source
        self.context = context
        self.entry = entry
        self.scheduled = scheduled
        self.limits = limits
        self.modules = modules
