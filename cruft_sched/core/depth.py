"""How deep JSON is nested, told before it is parsed: a parser's own limit depends on the stack of its thread."""

from __future__ import annotations

import re

MAX_DEPTH = 100
"""The deepest JSON that is taken, from people and from agents alike."""

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def too_deep(data: bytes, levels: int = MAX_DEPTH) -> bool:
    """Whether JSON text is nested more than `levels` deep. Of text that is no JSON it may say either."""
    if data.count(b"[") + data.count(b"{") <= levels:
        return False
    depth = 0
    for bracket in _STRING.sub(b"", data).translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > levels:
            return True
    return False
