"""`echo`: gives its arguments back."""

from __future__ import annotations

from msgspec import Raw

from cruft_sched.tools.tool import Call, as_json


def run(call: Call) -> Raw:
    """The arguments, verbatim."""
    return as_json(call.args)
