"""`cruft agent policy schema`."""

from __future__ import annotations

import click

from cruft_sched.cli.app import Command
from cruft_sched.cli.output import write


@click.command("schema", cls=Command)
def command() -> None:
    """Print the JSON Schema of a policy. An editor that knows it completes and checks the file as it is written."""
    import json

    from cruft_sched.core.policy_schema import policy_schema

    write(json.dumps(policy_schema(), indent=2, ensure_ascii=False).encode() + b"\n")
