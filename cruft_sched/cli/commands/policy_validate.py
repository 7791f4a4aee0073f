"""`cruft agent policy validate`."""

from __future__ import annotations

import click

from cruft_sched.cli import human
from cruft_sched.cli.app import Command, complain
from cruft_sched.cli.output import output_option, show

EXIT_BAD = 65


@click.command("validate", cls=Command)
@click.argument("policy", metavar="FILE")
@output_option
@click.pass_context
def command(ctx: click.Context, policy: str, output: str) -> None:
    """Report every fault of a policy, one a line on standard error, with its JSON path; 65 where there is any."""
    from cruft_sched.ops.validate_policy import validate_policy

    answer = validate_policy(policy)
    said = "is valid" if answer.valid else f"has {len(answer.faults)} fault(s)"
    show(output, answer, lambda: human.sentence(f"{answer.policy} {said}"))
    for fault in answer.faults:
        complain(ctx.command_path, f"{fault.path}: {fault.message}")
    if answer.faults:
        ctx.exit(EXIT_BAD)
