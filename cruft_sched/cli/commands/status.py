"""`cruft agent schedule status`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from cruft_sched.cli import human, options
from cruft_sched.cli.app import Command
from cruft_sched.cli.output import escape_json, output_option, show_human, write

if TYPE_CHECKING:
    from cruft_sched.core.manifest import Manifest
    from cruft_sched.stores.file import FileStore


@click.command("status", cls=Command)
@options.job_id
@options.store
@output_option
def command(job_id: str, store: str, output: str) -> None:
    """Print a job's manifest, indented, once its seal is verified."""
    import msgspec
    from msgspec.structs import replace

    opened = options.open_store(store)
    manifest = replace(opened.load(job_id), secrets=())  # they are kept for the engine alone
    indent = -1 if output == "json" else 2
    write(escape_json(msgspec.json.format(msgspec.json.encode(manifest), indent=indent)) + b"\n")
    if output == "human" or (output == "auto" and os.isatty(1)):
        _show_command(opened, manifest)


def _show_command(store: FileStore, manifest: Manifest) -> None:
    """For a person at a terminal: the whole command that answers the job, ready to be pasted."""
    from cruft_sched.ops.show_token import pending_token

    pending = pending_token(store, manifest)
    if pending is not None:
        show_human(human.sentence(f"answer with: {pending.command}"))
