"""`cruft agent schedule input`."""

from __future__ import annotations

import click

from cruft_sched.cli import options
from cruft_sched.cli.app import Command
from cruft_sched.cli.commands.tick import finish
from cruft_sched.cli.output import output_option


@click.command("input", cls=Command)
@options.job_id
@options.store
@click.option("--token", required=True, help="The token of the input; - reads it from standard input.")
@click.option("--json", "answer", metavar="JSON", required=True, help="The answer; - reads it from standard input.")
@click.option("--by", metavar="NAME", help="Who answers; it is recorded.")
@click.option("--defer", is_flag=True, help="Record the answer, and leave the turn to the next tick.")
@output_option
@click.pass_context
def command(
    ctx: click.Context, job_id: str, store: str, token: str, answer: str, by: str | None, defer: bool, output: str
) -> None:
    """Answer a job that waits for a person, and run the turn that receives the answer."""
    from cruft_sched.clock import SystemClock
    from cruft_sched.ops.submit_input import submit_input

    from_stdin = "-"
    if token == answer == from_stdin:
        raise click.UsageError("only one of --token and --json can be read from standard input")
    given = options.bytes_of(answer)
    word = token if token != from_stdin else options.stdin().decode("utf-8", "replace").strip()
    report = submit_input(options.open_store(store), job_id, word, given, SystemClock(), by=by, defer=defer)
    finish(ctx, report, output)
