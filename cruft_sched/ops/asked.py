"""The await that a turn's request becomes."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from cruft_sched.core import ids
from cruft_sched.core.awaits import (
    Await,
    InputAwait,
    InputPayload,
    TimerAwait,
    TimerPayload,
    ToolAwait,
    ToolOptions,
    ToolPayload,
)
from cruft_sched.core.manifest import Manifest
from cruft_sched.core.outcomes import Ask, CallTool, Request, Sleep, SleepUntil
from cruft_sched.core.policy import Policy
from cruft_sched.core.sealing import StoreKey, digest
from cruft_sched.ops.approvals import question


def asked(request: Request, manifest: Manifest, turn_id: str, policy: Policy, key: StoreKey, now: int) -> Await:
    """The record of what the turn `turn_id` of a job waits for, from `now` on."""
    name = ids.await_id(turn_id)
    match request:
        case Sleep(delay_ms=delay):
            timer = TimerPayload(delay_ms=delay, deadline_ms=now + delay)
            return TimerAwait(id=name, run_id=turn_id, created_ms=now, payload=timer)
        case SleepUntil(deadline_ms=deadline):
            timer = TimerPayload(delay_ms=max(0, deadline - now), deadline_ms=deadline)
            return TimerAwait(id=name, run_id=turn_id, created_ms=now, payload=timer)
        case CallTool(tool=tool, args=args):
            once = ids.idempotency_key(manifest.uid, name, tool, bytes(args))
            options = ToolOptions(timeout_ms=request.timeout_ms, retry=request.retry)
            call = ToolPayload(tool=tool, args=args, options=options, idempotency_key=once)
            leave = question(call, manifest, policy)
            if leave is not None:
                return _sealed(InputAwait(id=name, run_id=turn_id, created_ms=now, payload=leave), manifest.uid, key)
            return ToolAwait(id=name, run_id=turn_id, created_ms=now, payload=call)
        case Ask():
            payload = InputPayload(
                kind=request.input_kind,
                payload=request.payload,
                token_hash="",
                schema=request.schema,
                deadline_ms=None if request.timeout_ms is None else now + request.timeout_ms,
                on_timeout=request.on_timeout,
            )
            wait = InputAwait(id=name, run_id=turn_id, created_ms=now, payload=payload)
            return _sealed(wait, manifest.uid, key)


def _sealed(wait: InputAwait, uid: str, key: StoreKey) -> InputAwait:
    """The same, with the hash of the token that answers it."""
    return replace(wait, payload=replace(wait.payload, token_hash=digest(token_of(wait, uid, key).encode())))


def token_of(wait: InputAwait, uid: str, key: StoreKey) -> str:
    """The token that answers an input: of this job, this await, and of all that the person is shown."""
    shown = msgspec.json.encode((wait.payload.kind, wait.payload.payload, wait.payload.schema))
    return key.token(uid, wait.id, shown)
