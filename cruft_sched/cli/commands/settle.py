"""`cruft agent schedule settle`."""

from __future__ import annotations

import click

from cruft_sched.cli import human, options
from cruft_sched.cli.app import Command
from cruft_sched.cli.output import output_option, show


@click.command("settle", cls=Command)
@options.job_id
@options.store
@click.option("--result", metavar="JSON", help="It was done, and this is its result; - reads it from standard input.")
@click.option("--error", metavar="TEXT", help="It was not done: what went wrong.")
@click.option("--retry", is_flag=True, help="It had no effect: the next tick makes the call again.")
@click.option("--by", metavar="NAME", help="Who decides; it is recorded.")
@output_option
def command(
    job_id: str, store: str, result: str | None, error: str | None, retry: bool, by: str | None, output: str
) -> None:
    """Say what became of a tool call whose driver died in it, before a tick tells the agent that nobody knows."""
    from cruft_sched.clock import SystemClock
    from cruft_sched.ops.settle_by_hand import Again, Decision, Failed, Result, settle_by_hand

    given: list[Decision] = [Again()] if retry else []
    given += [] if error is None else [Failed(error)]
    given += [] if result is None else [Result(options.bytes_of(result))]
    if len(given) != 1:
        raise click.UsageError("give one of --result, --error and --retry")
    answer = settle_by_hand(options.open_store(store), job_id, given[0], SystemClock(), by)
    show(output, answer, lambda: human.sentence(f"job {job_id}: {answer.tool} is settled by its {answer.settled}"))
