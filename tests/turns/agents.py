"""What the tests of agents share: an agent run in a real child process, and what came of it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import Raw

from cruft_sched.core.outcomes import Completed, Failed, Suspended, TurnOutcome
from cruft_sched.core.policy import Budgets
from cruft_sched.turns.turn import Turn, run_turn

LANGUAGES = ("javascript", "python")
BOTH = pytest.mark.parametrize("language", LANGUAGES)

Table = Mapping[str, Mapping[str, str]]
"""Agents that do the same thing in both languages: name → language → source."""

TEN_YEARS_MS = 315_576_000_000


class Result:
    """A turn's outcome, and what it noted. What is no budget of `given` is the turn's: context, state, scheduled."""

    def __init__(self, language: str, source: str, **given: Any) -> None:
        self.notes: list[tuple[str, Any]] = []
        turn = Turn(
            source=source.encode(),
            context={key: Raw(json.dumps(value).encode()) for key, value in given.pop("context", {}).items()},
            state={key: Raw(json.dumps(value).encode()) for key, value in given.pop("state", {}).items()},
            scheduled=given.pop("scheduled", True),
            language=language,
            budgets=Budgets(**{"timeout_ms": 20_000, **given}),
        )
        self.outcome: TurnOutcome = run_turn(turn, self._note)

    def _note(self, kind: str, fields: Mapping[str, Any]) -> None:
        self.notes.append((kind, fields))

    @property
    def events(self) -> list[Any]:
        return [json.loads(bytes(fields["event"])) for kind, fields in self.notes if kind == "emit"]

    @property
    def value(self) -> Any:
        """What the agent gave to `close`."""
        ending = self.outcome.ending
        assert isinstance(ending, Completed), ending
        return json.loads(bytes(ending.result))

    @property
    def error(self) -> Any:
        ending = self.outcome.ending
        assert isinstance(ending, Failed), ending
        return ending.error

    @property
    def request(self) -> Any:
        ending = self.outcome.ending
        assert isinstance(ending, Suspended), ending
        return ending.request

    @property
    def state(self) -> dict[str, Any]:
        return {key: json.loads(bytes(value)) for key, value in self.outcome.state.items()}


def caught(language: str, call: str) -> str:
    """An agent that makes a call and closes with the name of the error it throws."""
    if language == "python":
        return f"try: {call}\nexcept Exception as error: close(type(error).__name__)"
    return f"try {{ {call} }} catch (error) {{ close(error.name) }}"


def cases(table: Table) -> pytest.MarkDecorator:
    """Parametrize by (language, source) over a table, the names of its agents as test ids."""
    rows = [
        pytest.param(language, source, id=f"{name}-{language}")
        for name, sources in table.items()
        for language, source in sources.items()
    ]
    return pytest.mark.parametrize(("language", "source"), rows)


def gone(pid: int) -> bool:
    """Whether a process ends within a while: a killed one is reaped by whoever adopted it."""
    for _ in range(400):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False
