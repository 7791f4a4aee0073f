"""Options that several commands share, and the parts of the world they name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from cruft_sched.stores.file import FileStore

store = click.option("--store", envvar="CRUFT_STORE", required=True, help="The store's folder (or CRUFT_STORE).")
job_id = click.argument("job_id", metavar="JOB-ID")


def key_file() -> str | None:
    """Where the store's key lies, if it is not in the store."""
    return os.environ.get("CRUFT_KEY_FILE") or None


def open_store(root: str) -> FileStore:
    """The store that `--store` names."""
    from cruft_sched.stores.file import FileStore

    return FileStore(root, key_file())


def _parse_labels(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = [label.partition("=") for label in given]
    if any(not key or not equals for key, equals, _ in pairs):
        raise click.BadParameter("a label is K=V")
    return {key: value for key, _, value in pairs}


labels = click.option(
    "--label", "labels", metavar="K=V", multiple=True, callback=_parse_labels, help="A label; may be given again."
)
