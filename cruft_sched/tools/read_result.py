"""`readResult`: a page of a result that was too large for the manifest."""

from __future__ import annotations

from cruft_sched.core.awaits import WaitError, denied
from cruft_sched.tools.pages import page
from cruft_sched.tools.tool import Call, Outcome

NAME = "readResult"


def run(call: Call) -> Outcome:
    """The JSON text of the result `args.result` (its hash) from byte `offset` on, `limit` bytes at most, cut between
    characters."""
    name = call.args["result"]
    data = call.authority().result(name)
    if data is None:
        return denied(f"{NAME}: this job has no kept result {name[:200]!a}", NAME)
    try:
        return page({"result": name}, len(data), lambda limit, offset: data[offset : offset + limit], call)
    except ValueError as error:
        return WaitError(message=f"{NAME}: {error}", disposition="error", tool=NAME)
