"""`cruft agent replay`."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import click

from cruft_sched.cli import human, options
from cruft_sched.cli.app import Command, complain
from cruft_sched.cli.output import json_line, output_option, plain, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cruft_sched.core.chains import Run
    from cruft_sched.ops.audit_replay import AuditReplay, Replayed

EXIT_BROKEN = 65
_QUIET_S = 2.0
_BATCH = 1000
_SHOWN = 300
_ENVELOPE = ("type", "run_id", "seq", "at_ms", "prev")


@click.command("replay", cls=Command)
@click.argument("audit_log", metavar="AUDIT.jsonl")
@click.option("--run-id", metavar="R", help="Show the lines of this run.")
@click.option("--store", metavar="DIR", help="Compare with what this store has committed.")
@output_option
@click.pass_context
def command(ctx: click.Context, audit_log: str, run_id: str | None, store: str | None, output: str) -> None:
    """Show what an audit log says, run by run, and verify that no line was edited, cut, moved or repeated.

    Nothing is executed again. The files that the log was renamed to (AUDIT.jsonl.1, …) are read too. Exit code 65 where
    a line is not right.
    """
    from cruft_sched.ops.audit_replay import Replayed, committed_heads, job_sentence, sentence
    from cruft_sched.stores.audit_reader import LogReader

    people = output == "human" or (output == "auto" and os.isatty(1))
    opened = options.open_store(store) if store else None
    heads = committed_heads(opened, audit_log) if opened is not None else []
    with LogReader(audit_log) as reader:
        replayed = Replayed(reader, run_id, keep=people, on_progress=_progress(ctx.command_path))
        jobs = replayed.compare(heads) if opened is not None else None
        answer = replayed.answer(jobs, opened.root if opened is not None else None)
        if people:
            _write_lines(_timeline(replayed, answer))
        else:
            write(json_line(answer))
    for job in [job for job in jobs or [] if not job.ok]:
        complain(ctx.command_path, job_sentence(job))
    if not answer.ok:
        if answer.first_broken:
            complain(ctx.command_path, f"{sentence(answer.first_broken)}; what this log says is not to be trusted")
        ctx.exit(EXIT_BROKEN)


def _progress(path: str) -> Callable[[int, int], None]:
    """Say every two seconds how far it is."""
    last = time.monotonic()

    def on_progress(read: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _QUIET_S:
            last = time.monotonic()
            complain(path, f"read {read >> 20} of {total >> 20} MiB")

    return on_progress


def _timeline(replayed: Replayed, answer: AuditReplay) -> Iterator[str]:
    """One line for each line of the log, run by run."""
    from cruft_sched.ops.audit_replay import sentence

    for run in replayed.runs:
        yield from _run(replayed, run)
    held = sum(report.ok for report in answer.runs)
    yield f"{_count(answer.lines, 'line')}, {_count(len(answer.runs), 'run')}, {held} of them whole or void"
    if answer.jobs:
        held = sum(job.ok for job in answer.jobs)
        yield f"{held} of {_count(len(answer.jobs), 'job')} in the log as committed"
    if answer.first_broken:
        yield f"first broken: {sentence(answer.first_broken)}"


def _run(replayed: Replayed, run: Run) -> Iterator[str]:
    from cruft_sched.ops.audit_replay import sentence

    status = "void: it was never committed" if run.void else run.status or "unfinished"
    uid = f" (uid {run.uid})" if run.uid is not None else ""
    yield f"run {run.run_id}{uid}: {status}"
    for _, number, line in replayed.entries(run):
        yield f"  {number:>6}  {_entry(line)}"
    if run.broken is not None:
        yield f"  broken: {sentence(replayed.broken(run.broken))}"


def _entry(line: bytes) -> str:
    import msgspec

    entry: dict[str, Any] = msgspec.json.decode(line)
    at_ms = entry.get("at_ms")
    at = human.instant(at_ms) if isinstance(at_ms, int) else ""
    fields = " ".join(
        f"{key}={msgspec.json.encode(value).decode()}" for key, value in entry.items() if key not in _ENVELOPE
    )
    return f"{at}  {entry['type']}  {fields if len(fields) <= _SHOWN else fields[:_SHOWN] + '…'}"


def _write_lines(lines: Iterator[str]) -> None:
    batch: list[str] = []
    for line in lines:
        batch.append(plain(line) + "\n")
        if len(batch) >= _BATCH:
            write("".join(batch).encode("utf-8", "replace"))
            batch.clear()
    write("".join(batch).encode("utf-8", "replace"))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
