"""Times and statuses, for people."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from cruft_sched.cli.output import plain

if TYPE_CHECKING:
    from rich.text import Text

COLOURS = {
    "completed": "green",
    "failed": "red",
    "expired": "red",
    "cancelled": "dim",
    "running": "cyan",
    "awaiting_input": "yellow",
}

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))


def status(name: str) -> Text:
    """A status in its colour."""
    from rich.text import Text

    return Text(name, style=COLOURS.get(name, ""))


def sentence(*parts: str | Text) -> Text:
    """A sentence of texts from anywhere: no markup in them is read as such, and nothing controls the terminal."""
    from rich.text import Text

    return Text.assemble(*(plain(part) if isinstance(part, str) else part for part in parts))


def newline() -> Text:
    """A line's end, which `sentence` would make visible."""
    from rich.text import Text

    return Text("\n")


def duration(ms: int) -> str:
    """A length of time in its largest whole unit."""
    for size, unit in _UNITS:
        if ms >= size:
            return f"{ms // size} {unit}"
    return "0 ms"


def instant(at_ms: int) -> str:
    """An instant in the machine's zone, to the second, with the zone's offset."""
    try:
        return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"
