"""What a command prints: stable JSON for programs, sentences and tables for people.

What an agent wrote can carry escape codes, marks that turn the direction of text, newlines. None of that reaches a
terminal as control: in JSON it is written as `\\u` escapes, which say the same; for people, as visible escapes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click
import msgspec

from cruft_sched.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

output_option = click.option(
    "--output",
    type=click.Choice(["auto", "json", "human"]),
    default="auto",
    help="json: one line of JSON; human: for people; auto: human at a terminal.",
)


def show(mode: str, answer: msgspec.Struct, human: Callable[[], RenderableType]) -> None:
    """Print an answer. `human` is only called, and rich only loaded, where a person reads."""
    if mode == "json" or (mode == "auto" and not os.isatty(1)):
        write(json_line(answer))
    else:
        show_human(human())


def json_line(answer: Any) -> bytes:
    """One line of JSON in which every character that is not printable is escaped."""
    return escape_json(msgspec.json.encode(answer)) + b"\n"


def escape_json(data: bytes) -> bytes:
    """The same JSON, with the characters that could control a terminal as `\\u` escapes. Newlines between values
    (an indented text) stay."""
    text = data.decode()
    if all(line.isprintable() for line in text.split("\n")):
        return data
    return "".join(c if c.isprintable() or c == "\n" else _json_escape(c) for c in text).encode()


def plain(text: str) -> str:
    """Text that somebody else wrote, on one line, with everything that is not printable made visible."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _visible(c) for c in text)


def write(data: bytes) -> None:
    """Write bytes to standard output, whatever the locale. Raises OutputError."""
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(1, rest) :]
    except OSError as error:
        raise OutputError(
            f"cannot write the answer: {error.strerror}", "what was done is done: see `status`"
        ) from error


def show_human(what: RenderableType) -> None:
    """Print with rich. Texts from outside must have come through `plain`, and be Text. Raises OutputError."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    with console.capture() as captured:
        console.print(what, markup=False, emoji=False)
    write(captured.get().encode("utf-8", "replace"))


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def _visible(character: str) -> str:
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character, f"\\u{{{ord(character):x}}}")
