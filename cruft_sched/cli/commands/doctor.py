"""`cruft agent doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import UNSET

from cruft_sched.cli import human
from cruft_sched.cli.app import Command, complain
from cruft_sched.cli.output import output_option, show

if TYPE_CHECKING:
    from rich.text import Text

    from cruft_sched.ops.doctor import DoctorReport, TierReport

EXIT_UNAVAILABLE = 69

_IDENTITIES = {
    "own": "",
    "dropped": ", as nobody",
    "kept": ", as root without capabilities, since nobody else can read this Python",
}


@click.command("doctor", cls=Command)
@output_option
@click.pass_context
def command(ctx: click.Context, output: str) -> None:
    """See how far this machine confines an agent: run a confined turn of each language, and try what it must not do.

    Exit code 69 where one of them cannot be had.
    """
    from cruft_sched.ops.doctor import doctor

    report = doctor()
    show(output, report, lambda: _lines(report))
    if not report.available:
        missing = next(tier for tier in report.tiers if not tier.available)
        complain(ctx.command_path, f"{missing.missing}; {missing.remedy}")
        ctx.exit(EXIT_UNAVAILABLE)


def _lines(report: DoctorReport) -> Text:
    from rich.text import Text

    head = human.sentence(f"{report.system}, Python {report.python}, uid {report.uid}")
    return Text("\n").join([head, *map(_line, report.tiers)])


def _line(tier: TierReport) -> Text:
    from rich.text import Text

    name = f"{tier.tier:<6} ({tier.language}): "
    if not tier.available:
        return human.sentence(name, Text("not available", style="red"), f": {tier.missing}; {tier.remedy}")
    landlock = "" if tier.landlock_abi is UNSET else f": seccomp, Landlock ABI {tier.landlock_abi}"
    who = _IDENTITIES.get(tier.identity or "", "")
    return human.sentence(name, Text("available", style="green"), f"{landlock}{who}")
