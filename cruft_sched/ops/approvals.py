"""Leave for a durable call: the question to a person, and what their answer makes of it.

The token of the question is of all that the person is shown: the tool, its arguments and the policy's hash.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from cruft_sched.core import awaits, ids
from cruft_sched.core.audit import Chain
from cruft_sched.core.awaits import Approval, InputAwait, InputPayload, ToolAwait, ToolPayload, denied
from cruft_sched.core.manifest import Manifest
from cruft_sched.core.policy import Policy
from cruft_sched.core.redaction import redactor_of
from cruft_sched.core.tool_lines import approval_lines
from cruft_sched.ops.project import beside
from cruft_sched.stores.audit_log import AuditLog
from cruft_sched.tools import registry
from cruft_sched.tools.perform import args_fault

KIND = "tool_approval"
_MAX_REASON_CHARS = 1000


def needs_approval(policy: Policy, tool: str) -> bool:
    """Whether a person must allow each call of a tool."""
    return tool in policy.approval_required_tools and tool not in policy.approved_tools


def question(call: ToolPayload, manifest: Manifest, policy: Policy) -> InputPayload | None:
    """What a person is asked before the call; None where nobody need be, or where the call would come to nothing."""
    tool = registry.find(call.tool)
    if not needs_approval(policy, call.tool) or call.tool not in policy.tools or tool is None:
        return None
    args = msgspec.json.decode(call.args)
    if args_fault(call.tool, tool, args) is not None:
        return None
    shown = {"tool": call.tool, "args": call.args, "effect": tool.effect, "policy_hash": manifest.policy_hash}
    return InputPayload(
        kind=KIND,
        payload=Raw(msgspec.json.encode(shown)),
        token_hash="",
        schema=Raw(msgspec.json.encode(_schema(tool.args))),
        deadline_ms=None,
        on_timeout="resume",
        then=call,
    )


def _schema(args: dict[str, Any]) -> dict[str, Any]:
    """The schema of an answer. `args` are the arguments to execute in the place of those that were proposed."""
    reason = {"type": "string", "maxLength": _MAX_REASON_CHARS}
    return {
        "type": "object",
        "properties": {"approved": {"type": "boolean"}, "args": args, "reason": reason},
        "required": ["approved"],
        "additionalProperties": False,
        "default": {"approved": True},
    }


def decided(wait: InputAwait, call: ToolPayload, answer: Raw, by: str | None, now: int, uid: str) -> ToolAwait:
    """The call that a question was about, allowed or refused by an answer of its schema."""
    given: dict[str, Raw] = msgspec.json.decode(answer, type=dict[str, Raw])
    approved, reason = bytes(given["approved"]) == b"true", _text(given.get("reason"))
    args = given.get("args", call.args) if approved else call.args
    decision = Approval(at_ms=now, approved=approved, by=by, reason=reason, proposed=call.args)
    key = ids.idempotency_key(uid, wait.id, call.tool, bytes(args))
    tool = awaits.as_call(wait, replace(call, args=args, idempotency_key=key, approval=decision))
    if approved:
        return tool
    why = f": {reason}" if reason else ""
    return awaits.tool_done(tool, denied(f"a person refused the call of {call.tool}{why}", call.tool), now, by)


def _text(value: Raw | None) -> str | None:
    return None if value is None else str(msgspec.json.decode(value))


def record(policy: Policy, manifest: Manifest, wait: ToolAwait, now: int) -> None:
    """Append a decision to the policy's `approval_log`, if it has one: a run of its own. Raises StorageError, and then
    it was not taken. A log may have more decisions than were taken, since its line comes first."""
    if policy.approval_log is None:
        return
    masks, limit = redactor_of(manifest), policy.budgets.max_event_bytes
    masks.learn("", wait.payload.args)
    start = ("run_start", {"job_id": manifest.job_id, "policy_hash": manifest.policy_hash})
    decision = [(kind, masks.own(fields)) for kind, fields in approval_lines(wait, limit)]
    chain = Chain(wait.id, manifest.uid)
    lines = [chain.line(kind, now, fields) for kind, fields in (start, *decision, ("run_end", {"status": "ok"}))]
    with AuditLog(beside(manifest.policy_path, policy.approval_log), policy.audit_log_max_bytes) as log:
        log.append(b"".join(lines))
        log.sync()
