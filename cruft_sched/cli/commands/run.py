"""`cruft agent run`."""

from __future__ import annotations

import click
from msgspec import UNSET

from cruft_sched.cli import human
from cruft_sched.cli.app import Command, complain
from cruft_sched.cli.output import output_option, show

EXIT_TURN_FAILED = 70


@click.command("run", cls=Command)
@click.option("--policy", metavar="FILE", required=True, help="The policy of the agent.")
@output_option
@click.pass_context
def command(ctx: click.Context, policy: str, output: str) -> None:
    """Run an agent once: one turn, no job, no scheduler. Its events go into the policy's audit log."""
    from cruft_sched.clock import SystemClock
    from cruft_sched.ops.run import run

    ran = run(policy, SystemClock())
    counted = f", {ran.events} events in {ran.audit_log}"
    show(output, ran, lambda: human.sentence(f"run {ran.run_id} is ", human.status(ran.status), counted))
    if ran.warning is not UNSET:
        complain(ctx.command_path, f"warning: {ran.warning}")
    if ran.error is not UNSET:
        complain(ctx.command_path, f"{ran.error}; its lines in {ran.audit_log} say more")
        ctx.exit(EXIT_TURN_FAILED)
