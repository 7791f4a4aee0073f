"""`process`: one of the policy's programs, run once, with no shell anywhere on the way."""

from __future__ import annotations

import os
from typing import Any

from cruft_sched.core.awaits import WaitError, denied
from cruft_sched.core.reach import ways
from cruft_sched.errors import CruftError
from cruft_sched.tools.authority import Program, Programs
from cruft_sched.tools.process.arguments import args_fault
from cruft_sched.tools.process.run import ProcessOrder, ProcessResult, run_process
from cruft_sched.tools.tool import Call, Outcome, as_json

NAME = "process"
_LAST_WORDS = 300


def run(call: Call) -> Outcome:
    """Run `args.command` with `args.args`, and `args.stdin` as its input. How it ends is the result, whatever that is;
    a timeout, and a program that cannot be run, are errors."""
    programs = call.authority().programs
    name, args = call.args["command"], call.args.get("args", [])
    program = programs.by_name.get(name)
    if program is None:
        return _denied(f"the policy has no command {name[:200]!a}")
    fault = None if program.args is None else args_fault(args, program.args)
    if fault is not None:
        return _denied(f"{name}: {fault}")
    try:
        result = run_process(_order(call, programs, program, args), call.stop)
    except CruftError as error:
        return WaitError(message=f"{NAME}: {name}: {error.what}; {error.todo}", disposition="error", tool=NAME)
    return _timeout(call, name, result) if result.timed_out else as_json(_told(name, result, programs))


def _denied(what: str) -> WaitError:
    return denied(f"{NAME}: {what}", NAME)


def _order(call: Call, programs: Programs, program: Program, args: list[str]) -> ProcessOrder:
    return ProcessOrder(
        executable=program.path,
        expected_hash=program.hash,
        args=args,
        cwd=programs.folder,
        env={**programs.environment, **call.secrets},
        stdin=call.args.get("stdin"),
        timeout_ms=max(1, call.limit_ms),
        max_output_bytes=programs.max_output_bytes,
        out_of_reach=list(programs.shut),
        isolation=programs.isolation,
    )


def _timeout(call: Call, name: str, result: ProcessResult) -> WaitError:
    words = result.stderr.text.strip() or result.stdout.text.strip()
    said = f", having said last: {words[-_LAST_WORDS:]}" if words else ""
    return WaitError(
        message=f"{name} was not done after {call.limit_ms} ms, and was killed with all that it had started{said}",
        disposition="timeout",
        tool=NAME,
        timeout_ms=call.limit_ms,
        duration_ms=result.duration_ms,
    )


def _told(name: str, result: ProcessResult, programs: Programs) -> dict[str, Any]:
    told: dict[str, Any] = {
        "command": name,
        "exit_code": result.exit_code,
        "signal": None if result.signal is None else result.signal.name,
        "duration_ms": result.duration_ms,
    }
    for stream, output in (("stdout", result.stdout), ("stderr", result.stderr)):
        told |= {stream: output.text, f"{stream}_bytes": output.bytes, f"{stream}_truncated": output.truncated}
    if result.stopped:
        told["ended"] = "it was told to end, since nobody waits for it any more"
    if result.too_many_processes:
        told["ended"] = "it was killed, since it had started too many processes"
    if result.exit_code != 0 and programs.isolation == "strict" and _is_on_the_way(programs):
        told["hint"] = "the folder lies above the store, so nothing can be listed or made right in it: move the store"
    return told


def _is_on_the_way(programs: Programs) -> bool:
    return os.path.realpath(programs.folder) in ways(map(os.path.realpath, programs.shut))
