"""`cruft agent policy explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cruft_sched.cli import human
from cruft_sched.cli.app import Command
from cruft_sched.cli.output import output_option, show

if TYPE_CHECKING:
    from rich.text import Text

    from cruft_sched.ops.explain_policy import Explained


@click.command("explain", cls=Command)
@click.argument("policy", metavar="FILE")
@output_option
def command(policy: str, output: str) -> None:
    """Say what a policy allows, in sentences that a reviewer can read."""
    from cruft_sched.ops.explain_policy import explain_policy

    answer = explain_policy(policy)
    show(output, answer, lambda: _lines(answer))


def _lines(answer: Explained) -> Text:
    from rich.text import Text

    told = answer.explanation
    parts = {
        "may call": told.may_call,
        "may import": told.may_import,
        "may read": told.may_read,
        "may write": told.may_write,
        "may run": told.may_run,
        "runs them in": told.runs_in,
        "runs them with": told.runs_with,
        "may reach": told.may_reach,
        "is given secrets": told.secrets,
        "asks a person for": told.asks_a_person_for,
        "approved beforehand": told.approved_beforehand,
        "may emit": told.may_emit,
        "cannot": told.cannot,
        "is written by the engine": told.engine_writes,
        "is masked": told.masks,
        "isolation": [told.isolation],
        "budgets": told.budgets,
        "a job is bound to": answer.bound,
    }
    lines = [human.sentence(f"{answer.agent}, under {answer.policy}:")]
    lines += [human.sentence(f"{name}: {'; '.join(items)}") for name, items in parts.items() if items]
    return Text("\n").join(lines)
