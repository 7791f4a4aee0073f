"""`cruft agent schedule start`."""

from __future__ import annotations

import shlex

import click

from cruft_sched.cli import human, options
from cruft_sched.cli.app import Command
from cruft_sched.cli.output import output_option, show


@click.command("start", cls=Command)
@options.policy
@click.option(
    "--store", envvar="CRUFT_STORE", help="The store's folder; default: .cruft/agent-scheduler by the policy."
)
@click.option("--job-id", help="The job's id; default: a new one, job-<hash>.")
@click.option("--context", metavar="JSON", help="An object whose keys are put over the policy's context.")
@options.labels
@click.option("--pin", is_flag=True, help="Run on the bytes of now, whatever becomes of the files.")
@output_option
def command(
    policy: str,
    store: str | None,
    job_id: str | None,
    context: str | None,
    labels: dict[str, str],
    pin: bool,
    output: str,
) -> None:
    """Make a durable job of a policy and its agent. It does nothing until it is ticked."""
    from cruft_sched.clock import SystemClock
    from cruft_sched.ops.start import start

    started = start(
        policy,
        SystemClock(),
        store_root=store,
        key_file=options.key_file(),
        job_id=job_id,
        context=options.as_bytes(context),
        labels=labels,
        pin=pin,
    )
    next_command = shlex.join(["cruft", "agent", "schedule", "tick", started.job_id, "--store", started.store])
    show(
        output,
        started,
        lambda: human.sentence(f"job {started.job_id} is created", human.newline(), f"next: {next_command}"),
    )
