"""`cruft demo`: real jobs, each command in a process of its own, and a check after each."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

import click
import msgspec

from cruft_sched.cli.app import Command, complain
from cruft_sched.core.replay import Replay

NAP_MS = 1500
EXIT_WRONG = 70


class DemoError(Exception):
    """An outcome was not what it must be."""


class Shell:
    """Runs commands in a folder of the demo's own, and shows each as a person would have typed it."""

    def __init__(self, folder: str, name: str) -> None:
        self.store = os.path.join(folder, "store")
        self.project = os.path.join(folder, name)
        shutil.copytree(os.path.join(_examples(), name), self.project)

    def run(self, verb: str, *arguments: str, expect: int = 0) -> dict[str, Any]:
        """Run one command of `cruft agent schedule` and return the JSON it printed."""
        given = ["agent", "schedule", verb, *arguments, "--store", self.store]
        click.secho(f"$ cruft {shlex.join(given)}", bold=True)
        done = subprocess.run(  # noqa: S603  # this very program
            [sys.executable, "-P", "-m", "cruft_sched", *given, "--output", "json"],
            capture_output=True,
            check=False,
            env={name: value for name, value in os.environ.items() if not name.startswith("CRUFT_")},
        )
        click.echo((done.stdout + done.stderr).decode().rstrip())
        if done.returncode != expect:
            raise DemoError(f"`{verb}` exited with {done.returncode} and not {expect}")
        answer: dict[str, Any] = msgspec.json.decode(done.stdout or b"{}")
        return answer

    def timeline(self, job_id: str) -> None:
        """Print the job's life as a table."""
        from cruft_sched.cli.commands.replay import timeline
        from cruft_sched.cli.output import show_human

        answer = self.run("replay", job_id)
        show_human(timeline(msgspec.convert(answer, Replay)))


@click.command("demo", cls=Command)
@click.pass_context
def command(ctx: click.Context) -> None:
    """See a job live through its life. Exits with 0 only if every outcome was right."""
    with tempfile.TemporaryDirectory(prefix="cruft-demo-") as folder:
        try:
            nap(Shell(folder, "01-nap"))
        except DemoError as error:
            complain(ctx.command_path, f"the demo came out wrong: {error}; please report it")
            ctx.exit(EXIT_WRONG)
    click.secho("Every outcome was right.", fg="green")


def nap(shell: Shell) -> None:
    """A job sleeps; nothing runs while it does; a later process goes on with it."""
    click.echo("A nap: the agent sleeps, and no process waits for it.\n")
    shell.run("start", "--project", shell.project, "--job-id", "nap", "--context", f'{{"nap_ms": {NAP_MS}}}')
    asleep = shell.run("tick", "nap")
    _check(asleep, "status", "awaiting_timer")
    early = shell.run("tick", "nap")
    _check(early, "ready", False)
    time.sleep(max(0, early["deadline_ms"] - early["now_ms"]) / 1000 + 0.01)
    awake = shell.run("tick", "nap")
    _check(awake, "status", "completed")
    _check(awake, "turn_cursor", 2)
    shell.timeline("nap")


def _check(answer: dict[str, Any], field: str, expected: object) -> None:
    if answer.get(field) != expected:
        raise DemoError(f"{field} is {answer.get(field)!r} and not {expected!r}")


def _examples() -> str:
    """The examples: beside the package where it is installed, beside the sources in a checkout."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    places = (os.path.join(package, "examples"), os.path.join(os.path.dirname(package), "examples"))
    return next(place for place in places if os.path.isdir(place))
