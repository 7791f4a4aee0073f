"""What `callTool` of an agent reaches within its turn: the gates, and the call."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import msgspec

from cruft_sched.core import ids
from cruft_sched.core.awaits import WaitError
from cruft_sched.core.outcomes import CallTool, Denied
from cruft_sched.core.policy import Policy
from cruft_sched.ops.approvals import needs_approval
from cruft_sched.ops.authority import secret_names
from cruft_sched.tools import registry
from cruft_sched.tools.authority import Authority
from cruft_sched.tools.perform import perform
from cruft_sched.tools.tool import Call, Outcome, nothing
from cruft_sched.turns.session import Gate, Granted


def gate_of(
    policy: Policy, uid: str, run_id: str, *, scheduled: bool, authority: Callable[[], Authority] = nothing
) -> Gate:
    """The gate of one turn. In a job's turn it opens to tools that read and no others: such a turn may run again."""
    numbers = count(1)

    def gate(call: CallTool) -> Denied | Granted:
        name = call.tool
        if name not in policy.tools:
            return Denied(message=f'tool "{name}" is not allowed by policy', tool=name)
        if needs_approval(policy, name):
            what = f'tool "{name}" needs a person\'s approval, which a job asks for with scheduler.callTool'
            return Denied(message=what, tool=name)
        tool = registry.find(name)
        if tool is None:
            return Denied(message=f'tool "{name}" is not available', tool=name)
        if tool.effect == "write" and scheduled:
            what = f'tool "{name}" writes: a job calls it with scheduler.callTool, which does not repeat it'
            return Denied(message=what, tool=name)
        key = ids.idempotency_key(uid, f"{run_id}/call-{next(numbers)}", name, bytes(call.args))

        def granted(stop: Callable[[], object]) -> Outcome:
            made = Call(
                args=msgspec.json.decode(call.args),
                timeout_ms=call.timeout_ms,
                timeout_limit_ms=policy.budgets.tool_timeout_ms,
                idempotency_key=key,
                max_result_bytes=policy.budgets.max_tool_result_bytes,
                authority=authority,
                stop=stop,
            )
            outcome = perform(name, tool, made, secret_names(policy, name)).outcome
            return _bounded(name, outcome, policy.budgets.max_tool_result_bytes)

        return granted

    return gate


def _bounded(name: str, outcome: Outcome, max_bytes: int) -> Outcome:
    """The outcome, if it is not too large for a turn. A durable call's is kept beside the manifest instead."""
    if isinstance(outcome, WaitError) or len(bytes(outcome)) <= max_bytes:
        return outcome
    what = f"its result is {len(bytes(outcome))} bytes, and max_tool_result_bytes is {max_bytes}"
    return WaitError(message=what, disposition="error", tool=name)
