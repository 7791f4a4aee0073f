"""Options that several commands share, and the parts of the world they name."""

from __future__ import annotations

import functools
import os
import re
import sys
from typing import TYPE_CHECKING, Any, ClassVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from cruft_sched.stores.file import FileStore


MAX_STDIN_BYTES = (1 << 20) + 1


def _need_store(_ctx: click.Context, _param: click.Parameter, given: str | None) -> str:
    if not given:
        raise click.UsageError("which store? give --store DIR, or set CRUFT_STORE")
    return given


store = click.option(
    "--store", envvar="CRUFT_STORE", metavar="DIR", callback=_need_store, help="The store's folder (or CRUFT_STORE)."
)
job_id = click.argument("job_id", metavar="JOB-ID")


def policy(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--policy FILE`, or `--project DIR`, which holds agent-policy.json: the command gets the file, as `policy`."""

    @functools.wraps(command)
    def given(*args: Any, project: str | None, policy: str | None, **more: Any) -> Any:
        if (project is None) == (policy is None):
            raise click.UsageError("give exactly one of --project and --policy")
        path = policy if policy is not None else os.path.join(project or "", "agent-policy.json")
        return command(*args, policy=path, **more)

    with_policy = click.option("--policy", metavar="FILE", help="The policy itself.")(given)
    return click.option("--project", metavar="DIR", help="A folder that holds agent-policy.json.")(with_policy)


def as_bytes(text: str | None) -> bytes | None:
    """What the command line gave, byte for byte."""
    return None if text is None else text.encode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """The same, where - stands for standard input."""
    return stdin() if text == "-" else text.encode("utf-8", "surrogateescape")


def stdin() -> bytes:
    """Standard input, as far as any answer may go."""
    return sys.stdin.buffer.read(MAX_STDIN_BYTES)


def key_file() -> str | None:
    """Where the store's key lies, if it is not in the store."""
    return os.environ.get("CRUFT_KEY_FILE") or None


def open_store(root: str) -> FileStore:
    """The store that `--store` names."""
    from cruft_sched.stores.file import FileStore

    return FileStore(root, key_file())


class Duration(click.ParamType[int]):
    """A length of time in milliseconds, written as 500ms, 50s, 10m, 2h, 3d, or parts of that in a row (1h30m)."""

    name = "duration"
    _UNITS_MS: ClassVar = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        parts = re.fullmatch(r"(?:\d{1,9}(?:ms|s|m|h|d))+", str(value))
        if parts is None:
            self.fail(f"{value!a} is no length of time; write it as 50s, 10m or 1h30m", param, ctx)
        found = re.findall(r"(\d+)(ms|s|m|h|d)", str(value))
        return sum(int(number) * self._UNITS_MS[unit] for number, unit in found)


DURATION = Duration()


def _parse_labels(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = [label.partition("=") for label in given]
    if any(not key or not equals for key, equals, _ in pairs):
        raise click.BadParameter("a label is K=V")
    return {key: value for key, _, value in pairs}


labels = click.option(
    "--label", "labels", metavar="K=V", multiple=True, callback=_parse_labels, help="A label; may be given again."
)
