"""Settle a tool await: the gates, the call, and what is known of a call whose driver died in it."""

from __future__ import annotations

import msgspec

from cruft_sched.clock import Clock
from cruft_sched.core import awaits
from cruft_sched.core.awaits import Started, ToolAwait, WaitError, denied
from cruft_sched.core.lifecycle import Settled, advance
from cruft_sched.core.manifest import Manifest
from cruft_sched.core.policy import Policy
from cruft_sched.core.redaction import Redactor
from cruft_sched.errors import RefusedError
from cruft_sched.ops.approvals import needs_approval
from cruft_sched.ops.authority import of_job, secret_names
from cruft_sched.ops.kept_results import keep_late, kept
from cruft_sched.ops.stopping import TOLD_TO_END, Stop
from cruft_sched.stores.file import HeldJob
from cruft_sched.tools import registry
from cruft_sched.tools.perform import args_fault, perform
from cruft_sched.tools.tool import Call, Outcome, Tool

MAYBE = "the driver died in this call: it may or may not have had its effect, and was not repeated"


def settle_tool(
    held: HeldJob, manifest: Manifest, wait: ToolAwait, policy: Policy, clock: Clock, stop: Stop, redactor: Redactor
) -> Manifest:
    """The job with the outcome of its tool call, to be committed with the turn that receives it, or with the next
    attempt's time. Where the job was cancelled in a call that has no effect, without it; where the driver was told to
    end in one, KeyboardInterrupt.

    Raises RefusedError where the tool is not granted or not durable: then nothing is called, and nothing written.
    """
    name = wait.payload.tool
    tool = _granted(name, policy, manifest.job_id)
    outcome: Outcome | None = _known(wait, tool, policy, clock.now_ms())
    if outcome is None:
        call = _call(held, manifest, wait, policy, stop)
        if not tool.repeatable and args_fault(name, tool, call.args) is None:  # else it does nothing
            started = awaits.tool_started(wait, clock.now_ms())
            manifest = held.commit(advance(manifest, Settled(name="tool_started", wait=started), clock.now_ms()))
        done = perform(name, tool, call, secret_names(policy, name))
        # A call that can be made again may have been cut short. The outcome of an effect is kept, whatever comes next.
        if tool.repeatable and stop():
            raise KeyboardInterrupt(TOLD_TO_END)
        if tool.repeatable and held.cancel_request(manifest) is not None:
            return manifest
        manifest, outcome = keep_late(held.store, manifest, done, redactor)
        manifest, outcome = kept(held.store, manifest, name, outcome, policy.budgets.max_tool_result_bytes, redactor)
    now = clock.now_ms()
    again = awaits.retried(wait, outcome, now) if isinstance(outcome, WaitError) and tool.repeatable else None
    if again is not None:
        return advance(manifest, Settled(name="tool_retry", wait=again), now)
    return advance(manifest, Settled(name="tool_done", wait=awaits.tool_done(wait, outcome, now)), now)


def _known(wait: ToolAwait, tool: Tool, policy: Policy, now: int) -> WaitError | None:
    """The outcome of a call that is not made, or None."""
    name, approval = wait.payload.tool, wait.payload.approval
    if isinstance(wait.settlement, Started) and not tool.repeatable:
        return WaitError(message=MAYBE, disposition="unknown", tool=name)
    if wait.payload.options.retry is not None and not tool.repeatable:
        what = f"{name} is not for options.retry: it writes, and what writes is not repeated"
        return WaitError(message=what, disposition="error", tool=name)
    if approval is None and needs_approval(policy, name):
        return denied(f"{name} needs a person's approval, and none was asked for", name)
    limit = policy.approval_max_age_ms
    if approval is not None and limit is not None and now - approval.at_ms > limit:
        return denied(f"the approval of {name} is older than approval_max_age_ms ({limit}): ask again", name)
    return None


def _granted(name: str, policy: Policy, job_id: str) -> Tool:
    todo = f"job {job_id} was not changed: cancel it, or start one whose policy and agent agree"
    if name not in policy.tools:
        raise RefusedError(f'tool "{name}" is not allowed by policy', todo)
    tool = registry.find(name)
    if tool is None:
        raise RefusedError(f'durable tool "{name}" is not available', todo)
    return tool


def _call(held: HeldJob, manifest: Manifest, wait: ToolAwait, policy: Policy, stop: Stop) -> Call:
    return Call(
        args=msgspec.json.decode(wait.payload.args),
        timeout_ms=wait.payload.options.timeout_ms,
        timeout_limit_ms=policy.budgets.tool_timeout_ms,
        idempotency_key=wait.payload.idempotency_key,
        max_result_bytes=policy.budgets.max_tool_result_bytes,
        authority=lambda: of_job(held.store, manifest, policy),
        stop=lambda: stop() or held.cancel_seen(manifest),
    )
