"""Settle a tool await: the gates, the call, and what is known of a call whose driver died in it."""

from __future__ import annotations

import msgspec

from cruft_sched.clock import Clock
from cruft_sched.core import awaits
from cruft_sched.core.awaits import Started, ToolAwait, WaitError
from cruft_sched.core.lifecycle import Settled, advance
from cruft_sched.core.manifest import Manifest
from cruft_sched.core.policy import Policy
from cruft_sched.errors import RefusedError
from cruft_sched.ops.authority import of_job
from cruft_sched.ops.stopping import TOLD_TO_END, Stop
from cruft_sched.stores.file import HeldJob
from cruft_sched.tools import registry
from cruft_sched.tools.registry import Call, Tool

_MAYBE = "the driver died in this call: it may or may not have had its effect, and was not repeated"


def settle_tool(
    held: HeldJob, manifest: Manifest, wait: ToolAwait, policy: Policy, clock: Clock, stop: Stop
) -> Manifest:
    """The job with the outcome of its tool call, to be committed with the turn that receives it. Where the job was
    cancelled in a call that has no effect, without it; where the driver was told to end in one, KeyboardInterrupt.

    Raises RefusedError where the tool is not granted or not durable: then nothing is called, and nothing written.
    """
    name = wait.payload.tool
    tool = _granted(name, policy, manifest.job_id)
    if isinstance(wait.settlement, Started) and not tool.repeatable:
        outcome: msgspec.Raw | WaitError = WaitError(message=_MAYBE, disposition="unknown", tool=name)
    else:
        call = _call(held, manifest, wait, policy, stop)
        if not tool.repeatable and registry.args_fault(name, tool, call.args) is None:  # else it does nothing
            started = awaits.tool_started(wait, clock.now_ms())
            manifest = held.commit(advance(manifest, Settled(name="tool_started", wait=started), clock.now_ms()))
        outcome = registry.perform(name, tool, call, policy.budgets.max_tool_result_bytes)
        # A call that can be made again may have been cut short. The outcome of an effect is kept, whatever comes next.
        if tool.repeatable and stop():
            raise KeyboardInterrupt(TOLD_TO_END)
        if tool.repeatable and held.cancel_request(manifest) is not None:
            return manifest
    done = awaits.tool_done(wait, outcome, clock.now_ms())
    return advance(manifest, Settled(name="tool_done", wait=done), clock.now_ms())


def _granted(name: str, policy: Policy, job_id: str) -> Tool:
    todo = f"job {job_id} was not changed: cancel it, or start one whose policy and agent agree"
    if name not in policy.tools:
        raise RefusedError(f'tool "{name}" is not allowed by policy', todo)
    if name in policy.approval_required_tools:
        raise RefusedError(f'tool "{name}" needs a person\'s approval, which cannot be asked for yet', todo)
    tool = registry.catalogue().get(name)
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
