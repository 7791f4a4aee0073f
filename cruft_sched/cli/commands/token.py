"""`cruft agent schedule token`."""

from __future__ import annotations

import click

from cruft_sched.cli import human, options
from cruft_sched.cli.app import Command
from cruft_sched.cli.output import output_option, show


@click.command("token", cls=Command)
@options.job_id
@options.store
@output_option
def command(job_id: str, store: str, output: str) -> None:
    """Show the token of the input that a job waits for, and the command that answers it.

    Whoever can read the store's key can do this, and so approve.
    """
    from cruft_sched.ops.show_token import show_token

    answer = show_token(options.open_store(store), job_id)
    asked = f"job {job_id} asks ({answer.kind}): {bytes(answer.payload).decode()}"
    show(output, answer, lambda: human.sentence(asked, human.newline(), "answer with: ", answer.command))
