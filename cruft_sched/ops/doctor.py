"""Run a confined turn of each language on this machine, and tell how far the kernel confines it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from cruft_sched.core.outcomes import Completed, Failed, TurnOutcome
from cruft_sched.core.policy import Budgets
from cruft_sched.errors import CruftError, UnavailableError
from cruft_sched.turns.protocol import Level
from cruft_sched.turns.turn import Turn, run_turn

_AGENTS = {
    "javascript": b"close([])",
    "python": b"""
import os, socket
attempts = {
    "reading a file outside the standard library": lambda: open(context["file"], "rb").close(),
    "opening a file for writing": lambda: open(os.devnull, "wb").close(),
    "opening a socket": lambda: socket.socket().close(),
    "starting a process": lambda: os.fork() or os._exit(0),
}
done = []
for name, attempt in attempts.items():
    try: attempt()
    except OSError: continue
    done.append(name)
close(done)
""",
}
"""What the turns try. A JavaScript agent has no words for any of it; the kernel's level is what is looked at."""

_TIERS: dict[str, Literal["strict", "stdlib"]] = {"javascript": "strict", "python": "stdlib"}


class TierReport(Struct, frozen=True, kw_only=True):
    """How a turn of one language is confined here; where it cannot be, what is missing, and what can be done."""

    tier: Literal["strict", "stdlib"]
    language: str
    available: bool
    landlock_abi: int | UnsetType = UNSET
    identity: str | UnsetType = UNSET
    missing: str | UnsetType = UNSET
    remedy: str | UnsetType = UNSET


class DoctorReport(Struct, frozen=True, kw_only=True):
    """What `cruft agent doctor` prints."""

    type: str = "agent_doctor"
    schema_version: int = 1
    system: str
    python: str
    uid: int
    available: bool
    tiers: list[TierReport]


def doctor() -> DoctorReport:
    """Run the turns. Whatever is wrong with this machine is in the report."""
    tiers = [_examine(language) for language in _AGENTS]
    system = os.uname()
    return DoctorReport(
        system=f"{system.sysname} {system.release} {system.machine}",
        python=platform.python_version(),
        uid=os.geteuid(),
        available=all(tier.available for tier in tiers),
        tiers=tiers,
    )


def missing() -> str | None:
    """What this machine lacks for the compartment; None where it lacks nothing."""
    tier = next((tier for tier in doctor().tiers if not tier.available), None)
    return None if tier is None else tier.missing or ""


def _examine(language: str) -> TierReport:
    tier = _TIERS[language]
    levels: list[Level] = []
    turn = Turn(
        source=_AGENTS[language],
        context={"file": msgspec.Raw(msgspec.json.encode(sys.executable))},
        state={},
        budgets=Budgets(timeout_ms=10_000),
        language=language,
        scheduled=False,
    )
    try:
        outcome = run_turn(turn, _ignore, on_ready=levels.append)
        _check(outcome)
    except CruftError as error:
        return TierReport(tier=tier, language=language, available=False, missing=error.what, remedy=error.todo)
    (level,) = levels
    return TierReport(
        tier=tier,
        language=language,
        available=True,
        landlock_abi=level.landlock_abi or UNSET,
        identity=level.identity or UNSET,
    )


def _check(outcome: TurnOutcome) -> None:
    """Raise UnavailableError where the turn failed, or could do what it must not."""
    ending = outcome.ending
    if isinstance(ending, Failed):
        raise UnavailableError(f"the turn that tries it failed: {ending.error}", "please report it")
    if not isinstance(ending, Completed):
        raise UnavailableError("the turn that tries it did not complete", "please report it")
    done = msgspec.json.decode(ending.result, type=list[str])
    if done:
        raise UnavailableError(f"the kernel did not stop {', '.join(done)}", "please report it")


def _ignore(_kind: str, _fields: Mapping[str, Any]) -> None:
    """The turns of an examination are in no audit log."""
