"""`cruft agent run`."""

from __future__ import annotations

import click
from msgspec import UNSET

from cruft_sched.cli import human, options
from cruft_sched.cli.app import Command, complain
from cruft_sched.cli.output import output_option, show

EXIT_TURN_FAILED = 70
_NO_SCHEDULER = ("ReferenceError: scheduler is not defined", "NameError: name 'scheduler' is not defined")


@click.command("run", cls=Command)
@options.policy
@click.option("--context", metavar="JSON", help="An object whose keys are put over the policy's context.")
@click.option("--run-id", metavar="ID", help="The run's name in the audit log; default: the policy's, or a new one.")
@click.option("--session-file", metavar="FILE", help="Where the state is kept from run to run; default: the policy's.")
@click.option("--audit-log", metavar="FILE", help="The audit log, in the place of the policy's.")
@output_option
@click.pass_context
def command(
    ctx: click.Context,
    policy: str,
    context: str | None,
    run_id: str | None,
    session_file: str | None,
    audit_log: str | None,
    output: str,
) -> None:
    """Run an agent once: one turn, no job, no scheduler. Its events go into the audit log."""
    from cruft_sched.clock import SystemClock
    from cruft_sched.ops.run import RunOptions, run

    given = RunOptions(context=options.as_bytes(context), run_id=run_id, session_file=session_file, audit_log=audit_log)
    ran = run(policy, SystemClock(), given)
    counted = f", {ran.events} events in {ran.audit_log}"
    show(output, ran, lambda: human.sentence(f"run {ran.run_id} is ", human.status(ran.status), counted))
    if ran.warning is not UNSET:
        complain(ctx.command_path, f"warning: {ran.warning}")
    if ran.error is not UNSET:
        complain(ctx.command_path, f"{ran.error}; {_todo(str(ran.error), ran.audit_log)}")
        ctx.exit(EXIT_TURN_FAILED)


def _todo(error: str, audit_log: str) -> str:
    if error.endswith(_NO_SCHEDULER):
        return "an agent that waits needs a job: `cruft agent schedule start`"
    return f"its lines in {audit_log} say more"
