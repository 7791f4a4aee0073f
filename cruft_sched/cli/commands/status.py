"""`cruft agent schedule status`."""

from __future__ import annotations

import click

from cruft_sched.cli import options
from cruft_sched.cli.app import Command
from cruft_sched.cli.output import escape_json, output_option, write


@click.command("status", cls=Command)
@options.job_id
@options.store
@output_option
def command(job_id: str, store: str, output: str) -> None:
    """Print a job's manifest, indented, once its seal is verified."""
    import msgspec

    manifest = options.open_store(store).load(job_id)
    indent = -1 if output == "json" else 2
    write(escape_json(msgspec.json.format(msgspec.json.encode(manifest), indent=indent)) + b"\n")
