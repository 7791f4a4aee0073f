"""`slow`: takes as long as it is told, or as long as it may."""

from __future__ import annotations

from msgspec import Raw

from cruft_sched.core.awaits import WaitError
from cruft_sched.tools.tool import Call, as_json

DEFAULT_TIMEOUT_MS = 250


def run(call: Call) -> Raw | WaitError:
    """Wait for `args.delay_ms`. Past the timeout nothing is waited for, and the late result never comes."""
    delay_ms = int(call.args.get("delay_ms", 0))
    wanted = DEFAULT_TIMEOUT_MS if call.timeout_ms is None else call.timeout_ms
    timeout_ms = min(wanted, call.timeout_limit_ms)
    call.pause(min(delay_ms, timeout_ms))
    if delay_ms > timeout_ms:
        return WaitError(
            message=f"slow was not done after {timeout_ms} ms",
            disposition="timeout",
            tool="slow",
            timeout_ms=timeout_ms,
            duration_ms=delay_ms,
            late_result_suppressed=True,
        )
    return as_json({"ok": True, "tool": "slow", "delay_ms": delay_ms, "value": call.args.get("value")})
