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

NAP_MS = 800
EXIT_WRONG = 70
POLICIES = {"JavaScript": "agent-policy.json", "Python": "agent-policy.python.json"}


class DemoError(Exception):
    """An outcome was not what it must be."""


class Shell:
    """Runs commands in a folder of the demo's own, and shows each as a person would have typed it."""

    def __init__(self, folder: str, example: str, policy: str, less: bool) -> None:
        """`less`: with the policy's isolation lowered to `process`."""
        self._folder = tempfile.mkdtemp(dir=folder)
        compiled = shutil.ignore_patterns("__pycache__")  # an installer compiles the agents that are Python
        shutil.copytree(os.path.join(_examples(), example), self._folder, ignore=compiled, dirs_exist_ok=True)
        self.policy = policy
        if less:
            self._lower_isolation()

    def _lower_isolation(self) -> None:
        path = os.path.join(self._folder, self.policy)
        with open(path, "rb") as file:
            policy = msgspec.json.decode(file.read())
        with open(path, "wb") as file:
            file.write(msgspec.json.encode(policy | {"isolation": "process"}))

    def run(self, verb: str, *arguments: str, expect: int = 0) -> dict[str, Any]:
        """Run one command of `cruft agent schedule` and return the JSON it printed."""
        given = ["agent", "schedule", verb, *arguments, "--store", "store"]
        click.secho(f"$ cruft {shlex.join(given)}", bold=True)
        done = subprocess.run(  # noqa: S603  # this very program
            [sys.executable, "-P", "-m", "cruft_sched", *given, "--output", "json"],
            capture_output=True,
            check=False,
            cwd=self._folder,
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
    """See jobs live through their lives. Exits with 0 only if every outcome was right."""
    less = _without_compartment()
    with tempfile.TemporaryDirectory(prefix="cruft-demo-") as folder:
        try:
            for language, policy in POLICIES.items():
                for title, play, example in PLAYS:
                    click.secho(f"\n{title} ({language})", fg="cyan")
                    play(Shell(folder, example, policy, less))
        except DemoError as error:
            complain(ctx.command_path, f"the demo came out wrong: {error}; please report it")
            ctx.exit(EXIT_WRONG)
    click.secho("\nEvery outcome was right.", fg="green")


def _without_compartment() -> bool:
    """Whether this machine cannot confine an agent. The demo's own agents are harmless, so it goes on, and says so."""
    from cruft_sched.ops.doctor import missing

    lacks = missing()
    if lacks is None:
        return False
    click.secho(f'No compartment here: {lacks}. The demo goes on with "isolation": "process".', fg="yellow")
    return True


def nap(shell: Shell) -> None:
    """A job sleeps; nothing runs while it does; a later process goes on with it."""
    shell.run("start", "--policy", shell.policy, "--job-id", "nap", "--context", f'{{"nap_ms": {NAP_MS}}}')
    _check(shell.run("tick", "nap"), status="awaiting_timer")
    early = shell.run("tick", "nap")
    _check(early, ready=False)
    time.sleep(max(0, early["deadline_ms"] - early["now_ms"]) / 1000 + 0.01)
    _check(shell.run("tick", "nap"), status="completed", turn_cursor=2)
    shell.timeline("nap")


def approval(shell: Shell) -> None:
    """A job waits for a person; a wrong token changes nothing; the right one goes on."""
    yes = '{"approved": true}'
    shell.run("start", "--policy", shell.policy, "--job-id", "deploy")
    _check(shell.run("tick", "deploy"), status="awaiting_input")
    shell.run("input", "deploy", "--token", "wrong", "--json", yes, expect=76)
    token = shell.run("token", "deploy")["token"]
    _check(shell.run("input", "deploy", "--token", token, "--json", yes, "--by", "you"), status="completed")
    shell.timeline("deploy")


def budget(shell: Shell) -> None:
    """A policy grants one turn; the second one is not run."""
    shell.run("start", "--policy", shell.policy, "--job-id", "over")
    _check(shell.run("tick", "over"), status="awaiting_timer", turn_cursor=1)
    _check(shell.run("tick", "over", expect=70), type="agent_scheduler_budget_exceeded", limit=1, attempted_turn=2)
    shell.timeline("over")


PLAYS = (
    ("A nap: the agent sleeps, and no process waits for it.", nap, "01-nap"),
    ("An approval: a person decides, and only with the wait's token.", approval, "02-approval"),
    ("A budget: one turn is granted, and a second one is not run.", budget, "04-budget"),
)


def _check(answer: dict[str, Any], **expected: object) -> None:
    for field, value in expected.items():
        if answer.get(field) != value:
            raise DemoError(f"{field} is {answer.get(field)!r} and not {value!r}")


def _examples() -> str:
    """The examples: beside the package where it is installed, beside the sources in a checkout."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    places = (os.path.join(package, "examples"), os.path.join(os.path.dirname(package), "examples"))
    return next(place for place in places if os.path.isdir(place))
