"""`python -m tests.benchmarks`: measure, and print one table. Nothing here fails for being slow."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import TextIO

import click

from tests.benchmarks.bench import Bench, Progress, Summary, measure, summarize
from tests.benchmarks.figures import FIGURES, JOBS, LIST_EMPTY, LIST_FULL

_HEADINGS = ("figure", "ratio", "median ms", "min ratio", "max ratio", "goal", "")


@click.command()
@click.option("--rounds", type=click.IntRange(min=1), default=15, show_default=True, help="How often to run each.")
@click.option(
    "--json",
    "json_file",
    metavar="FILE",
    type=click.File("w", lazy=False),
    help="Write the results to FILE, too, as JSON.",
)
@click.option(
    "--only",
    metavar="NAME",
    multiple=True,
    type=click.Choice([figure.name for figure in FIGURES]),
    help="Only this figure; may be given again.",
)
def main(rounds: int, json_file: TextIO | None, only: tuple[str, ...]) -> None:
    """Measure the commands as ratios to `python -I -S -E -c pass`. TMPDIR chooses the disk that is written to."""
    machine = {
        "platform": platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "cpus": os.cpu_count(),
    }
    figures = [figure for figure in FIGURES if not only or figure.name in only]
    with tempfile.TemporaryDirectory(prefix="cruft-benchmarks-") as folder:
        bench = Bench(folder, rounds, Progress())
        click.echo(f"{machine['platform']}, {machine['python']}, CPUs: {machine['cpus']}, rounds: {rounds}")
        runs = {figure.name: figure.prepare(bench) for figure in figures}
        floors, times = measure(bench, runs)
    floor = summarize("floor: python -I -S -E -c pass", floors, floors)
    summaries = [summarize(figure.name, times[figure.name], floors, figure.goal) for figure in figures]
    a_job = _us_a_job(times)
    click.echo(_table([floor, *summaries]))
    if a_job is not None:
        click.echo(f"each listed job adds {a_job:.1f} µs to the list of an empty store")
    if json_file is not None:
        answer = {
            "machine": machine,
            "rounds": rounds,
            "floor": asdict(floor),
            "figures": [asdict(summary) for summary in summaries],
            "us_a_listed_job": a_job,
        }
        click.echo(json.dumps(answer, indent=2), file=json_file)


def _us_a_job(times: Mapping[str, Sequence[float]]) -> float | None:
    """What one more job adds to `list`, in microseconds. None where only one of the two lists was measured."""
    if LIST_EMPTY not in times or LIST_FULL not in times:
        return None
    pairs = zip(times[LIST_FULL], times[LIST_EMPTY], strict=True)
    return median((full - empty) / JOBS * 1e6 for full, empty in pairs)


def _table(summaries: Sequence[Summary]) -> str:
    rows = [_HEADINGS, *map(_row, summaries)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *numbers, verdict in rows:
        cells = [name.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=False))]
        lines.append("  ".join((*cells, verdict)).rstrip())
    return "\n".join(lines)


def _row(summary: Summary) -> tuple[str, ...]:
    return (
        summary.name,
        _number(summary.ratio),
        _number(summary.median_ms),
        _number(summary.min_ratio),
        _number(summary.max_ratio),
        "" if summary.goal is None else str(summary.goal),
        {None: "", True: "reached", False: "not reached"}[summary.reached],
    )


def _number(value: float) -> str:
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


if __name__ == "__main__":
    main(prog_name="python -m tests.benchmarks")
