"""Globs, in time that grows with the path and the glob and not faster: an agent may give one."""

from __future__ import annotations

import re
from functools import cache

_PIECES = re.compile(r"\*\*/|\*\*|\*|\?|\[!?[^\]/]+\]|.", re.DOTALL)
_WORDS = {"**/": ("no folders", "folders"), "**": ("anything",), "*": ("name",), "?": ("one",)}
"""What a piece stands for. `**/` is two states: before anything was taken, it can be passed over."""


def matches(glob: str, path: str) -> bool:
    """Whether a path is of a glob, as in .gitignore: `*` and `?` stay within a name, `**` does not, `[ab]` is one of
    these, `[!ab]` none; a glob without a slash is matched against the last name alone."""
    subject = path if "/" in glob.rstrip("/") else path.rpartition("/")[2]
    return covers(glob.strip("/"), subject)


def covers(glob: str, subject: str) -> bool:
    """Whether a whole text is of a glob, character by character: nothing is special about a slash but that `*`, `?`
    and `[ab]` do not stand for it."""
    tokens = _tokens(glob)
    states = _closed({0}, tokens)
    for char in subject:
        states = _closed({to for state in states for to in _next(state, tokens, char)}, tokens)
        if not states:
            return False
    return len(tokens) in states


@cache
def _tokens(glob: str) -> tuple[str, ...]:
    return tuple(token for piece in _PIECES.findall(glob) for token in _WORDS.get(piece, (f"={piece}",)))


def _closed(states: set[int], tokens: tuple[str, ...]) -> set[int]:
    """The states, and those that can be reached from them without a character."""
    todo = list(states)
    while todo:
        state = todo.pop()
        word = tokens[state] if state < len(tokens) else ""
        steps = {"name": (1,), "anything": (1,), "no folders": (1, 2)}.get(word, ())
        for step in steps:
            if state + step not in states:
                states.add(state + step)
                todo.append(state + step)
    return states


def _next(state: int, tokens: tuple[str, ...], char: str) -> tuple[int, ...]:
    match tokens[state] if state < len(tokens) else "":
        case "anything":
            return (state,)
        case "folders":
            return (state, state + 1) if char == "/" else (state,)
        case "name":
            return (state,) if char != "/" else ()
        case "one":
            return (state + 1,) if char != "/" else ()
        case token if token.startswith("=") and _is_one_of(token[1:], char):
            return (state + 1,)
    return ()


def _is_one_of(piece: str, char: str) -> bool:
    if len(piece) == 1:
        return piece == char
    negated = piece.startswith("[!")
    inner = piece[2 if negated else 1 : -1]
    ranges = re.findall(r"(.)-(.)|(.)", inner, re.DOTALL)
    found = any(low <= char <= high if low else char == single for low, high, single in ranges)
    return found != negated and char != "/"
