"""Times things in rounds. Each round runs the floor and then each figure once, so that all meet the same noise.

A figure's ratio is the median of its ratios within the rounds: what slows a whole round down cancels out of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import click

FLOOR = (sys.executable, "-I", "-S", "-E", "-c", "pass")
"""The least that any command in Python costs on this machine."""

PROGRESS_S = 2.0

Run = Callable[[], float]
"""Does the thing once and returns how long it took, in seconds."""


class Progress:
    """Lines on standard error, at most one in two seconds, so that short work says nothing."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def __call__(self, line: str) -> None:
        now = time.monotonic()
        if now - self._said >= PROGRESS_S:
            self._said = now
            click.echo(line, err=True)


class Bench:
    """Where commands are timed: a folder that the caller removes, and one environment for all of them."""

    def __init__(self, folder: str, rounds: int, progress: Progress) -> None:
        """Raises click.ClickException where the console script is not installed beside this interpreter."""
        self.folder = folder
        self.rounds = rounds
        self.progress = progress
        self.cruft = os.path.join(os.path.dirname(sys.executable), "cruft")
        if not os.access(self.cruft, os.X_OK):
            raise click.ClickException(
                f"there is no console script {self.cruft}: install the package for {sys.executable}"
            )
        # PYTHONDONTWRITEBYTECODE would have an editable install compiled at every start, and the other variables of
        # the interpreter and of the program would make the figure one of the caller's shell.
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CRUFT_"))
        }

    def output(self, command: Sequence[str]) -> bytes:
        """What a command prints. Raises click.ClickException where it does not succeed."""
        done = subprocess.run(command, env=self._environment, capture_output=True, check=False)
        if done.returncode != 0:
            said = done.stderr[:1000].decode(errors="replace").strip()
            raise click.ClickException(f"a command failed (exit {done.returncode}): {said}")
        return done.stdout

    def seconds(self, command: Sequence[str], expected: bytes = b"") -> float:
        """Run a command to its end. Raises click.ClickException where it does not succeed and say `expected`."""
        started = time.perf_counter()
        done = subprocess.run(command, env=self._environment, cwd=self.folder, capture_output=True, check=False)
        took = time.perf_counter() - started
        if done.returncode != 0 or done.stderr or expected not in done.stdout:
            said = (done.stderr or done.stdout)[:1000].decode(errors="replace").strip()
            raise click.ClickException(f"`{' '.join(command)}` did not do its work (exit {done.returncode}): {said}")
        return took


@dataclass(frozen=True)
class Goal:
    """What a figure should not exceed: so many times the floor, and so many milliseconds on top."""

    ratio: float = 0
    plus_ms: float = 0

    def __str__(self) -> str:
        parts = [f"{self.ratio:g}"] if self.ratio else []
        parts += [f"{self.plus_ms:g} ms"] if self.plus_ms else []
        return " + ".join(parts)

    def reached(self, seconds: Sequence[float], floors: Sequence[float]) -> bool:
        """Whether it holds in the median of the rounds."""
        over = (took - self.plus_ms / 1000 - self.ratio * floor for took, floor in zip(seconds, floors, strict=True))
        return median(over) <= 0


@dataclass(frozen=True)
class Summary:
    """What all rounds say of one figure. Ratios are to the floor of the same round."""

    name: str
    median_ms: float
    ratio: float
    min_ratio: float
    max_ratio: float
    goal: Goal | None
    reached: bool | None
    """None where there is no goal."""


def measure(bench: Bench, runs: Mapping[str, Run]) -> tuple[list[float], dict[str, list[float]]]:
    """The seconds of the floor, and those of each run by its name, one of each a round."""
    floors: list[float] = []
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in (lambda: bench.seconds(FLOOR), *runs.values()):
        run()  # the warm-up: compiles what is not compiled yet, and fills the system's caches
    for number in range(bench.rounds):
        bench.progress(f"round {number + 1} of {bench.rounds}")
        floors.append(bench.seconds(FLOOR))
        for name, run in runs.items():
            times[name].append(run())
    return floors, times


def summarize(name: str, seconds: Sequence[float], floors: Sequence[float], goal: Goal | None = None) -> Summary:
    """One line of the table."""
    ratios = [took / floor for took, floor in zip(seconds, floors, strict=True)]
    ratio = median(ratios)
    return Summary(
        name=name,
        median_ms=median(seconds) * 1000,
        ratio=ratio,
        min_ratio=min(ratios),
        max_ratio=max(ratios),
        goal=goal,
        reached=None if goal is None else goal.reached(seconds, floors),
    )
