"""Which arguments a command may be given: globs that whole arguments are held to.

Globs and not regular expressions: what is forgotten in a glob is refused, and an argument cannot make one slow. On
top of what a glob says, two things that it must say letter by letter:

- what an argument is: `*` and its like stand for nothing that begins with a dash, so no option slips in as a name;
- `..`: they stand for no part of a path, or of a list, that goes up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cruft_sched.tools.globs import covers

MAX_ARGS = 4096
MAX_ARG_BYTES = (128 << 10) - 1
"""What Linux takes (MAX_ARG_STRLEN), its closing NUL aside."""

_PARTS = re.compile(r"[/=:,;\s]")
_SHOWN = 80


def args_fault(args: Sequence[str], patterns: Sequence[str]) -> str | None:
    """What is wrong with the first argument that no pattern allows; None where each has one.

    `*` is any run of characters without a slash, `**` any run, `?` one character, `[ab]` and `[!ab]` one of these or
    none of these. A pattern says nothing of where its argument stands, nor of how often.
    """
    if len(args) > MAX_ARGS:
        return f"more than {MAX_ARGS} arguments"
    for at, arg in enumerate(args):
        fault = text_fault(arg, MAX_ARG_BYTES)
        if fault is not None:
            return f"argument {at}: {fault}"
        if not any(_allows(pattern, arg) for pattern in patterns):
            shown = arg if len(arg) <= _SHOWN else arg[:_SHOWN] + "…"
            return f"argument {at} is of no shape that the policy allows: {shown!a}"
    return None


def text_fault(text: str, max_bytes: int) -> str | None:
    """What keeps a text from being handed to a program."""
    if "\0" in text:
        return "has a NUL"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "is no UTF-8"
    return f"has more than {max_bytes} bytes" if size > max_bytes else None


def _allows(pattern: str, arg: str) -> bool:
    if arg.startswith("-") and not pattern.startswith("-"):
        return False
    if arg == pattern:
        return True
    goes_up = ".." in _PARTS.split(arg)
    return not goes_up and covers(pattern, arg)
