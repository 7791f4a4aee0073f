"""`cruft agent init`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click
from msgspec import UNSET

from cruft_sched.cli import human
from cruft_sched.cli.app import Command
from cruft_sched.cli.output import output_option, show

if TYPE_CHECKING:
    from rich.text import Text

    from cruft_sched.ops.init_project import Initialized


@click.command("init", cls=Command)
@click.argument("folder", metavar="DIR")
@click.option(
    "--template",
    type=click.Choice(["blank", "human-approval", "repo-review", "ci-triage"]),
    default="blank",
    show_default=True,
    help="What the agent does.",
)
@click.option("--language", type=click.Choice(["js", "python"]), default="js", show_default=True, help="Of the agent.")
@output_option
def command(folder: str, template: str, language: str, output: str) -> None:
    """Make a project: an agent, and a policy that grants it no more than it needs. It runs at once.

    Where this machine cannot confine an agent, the policy asks for less, and says so.
    """
    from cruft_sched.ops.doctor import missing
    from cruft_sched.ops.init_project import init_project

    made = init_project(folder, template, language, missing())
    show(output, made, lambda: _lines(made))


def _lines(made: Initialized) -> Text:
    from rich.text import Text

    job, store = made.template, f"{made.project}/store"
    commands = [
        ["start", "--project", made.project, "--store", store, "--job-id", job],
        ["tick", job, "--store", store],
    ]
    lines = [human.sentence(f"{made.project} is made: {', '.join(made.files)}")]
    if made.without_compartment is not UNSET:
        lines.append(
            human.sentence(f'no compartment here: {made.without_compartment}; the policy has "isolation": "process"')
        )
    lines += [human.sentence(f"next: {shlex.join(['cruft', 'agent', 'schedule', *words])}") for words in commands]
    return Text("\n").join(lines)
