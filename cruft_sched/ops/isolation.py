"""What is said of a turn that ran with less than the whole compartment."""

from __future__ import annotations

from cruft_sched.core.policy import Policy

_WARNING = (
    'this policy\'s "isolation": "process" leaves the agent\'s Python what the user may do: read files, open sockets, '
    "start processes"
)


def warning(policy: Policy, language: str) -> str | None:
    """A sentence for people, at every turn of a Python agent that the kernel does not confine. JavaScript has no way
    out of its engine, so its process confines it everywhere, as long as the engine has no fault."""
    return _WARNING if policy.isolation == "process" and language == "python" else None
