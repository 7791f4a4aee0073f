"""Runs command lines in processes of their own, without the cost of starting an interpreter for each.

It reads one request a line from standard input, forks, and answers with one line. The forked process is as fresh as a
started one: this one has imported the program and done nothing with it. It has one thread, so forking is safe.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from importlib import import_module
from typing import Any, NoReturn

from cruft_sched import clock
from cruft_sched.cli import app
from cruft_sched.tools import registry
from cruft_sched.tools.tool import Call, Tool, as_json
from tests.seam import Seam, befalling

_IMPORTED = (
    *(f"cli.commands.{name}" for name in ("cancel", "input", "list", "replay", "start", "status", "tick", "token")),
    *("ops.advance", "ops.sweep", "turns.launcher"),
)
"""Before the fork, so that it is once for all."""


def main() -> None:
    for module in _IMPORTED:
        import_module(f"cruft_sched.{module}")
    null = os.open(os.devnull, os.O_RDWR)
    for line in sys.stdin:
        request = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as seen:
            process = os.fork()
            if process == 0:
                _become(request, null, out.fileno(), err.fileno(), seen.fileno())
            _, ended = os.waitpid(process, 0)
            answer: dict[str, object] = {"code": os.waitstatus_to_exitcode(ended)}
            for name, file in (("out", out), ("err", err), ("seen", seen)):
                file.seek(0)
                answer[name] = file.read().decode()
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _become(request: dict[str, Any], null: int, out: int, err: int, seen: int) -> NoReturn:
    """Be the command of a request, to its end."""
    code = 99
    try:
        os.dup2(null, 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115  # until this process ends
        readings = _set_clock(request.get("clock", []))
        if "effects" in request:
            _append_to(request["effects"])
        fault = request.get("fault")
        with Seam(befalling(**fault) if fault else None) as seam:
            code = app.run(request["arguments"])
        os.write(seen, json.dumps({"operations": seam.seen, "readings": len(readings)}).encode())
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _set_clock(jumps: list[tuple[int, int]]) -> list[int]:
    """Let the clock jump: from its n-th reading on it is off by so many milliseconds. Returns what it was read as."""
    readings: list[int] = []
    real = clock.SystemClock.now_ms

    def now_ms(self: clock.SystemClock) -> int:
        off = [ms for reading, ms in jumps if reading <= len(readings)]
        readings.append(real(self) + (off[-1] if off else 0))
        return readings[-1]

    clock.SystemClock.now_ms = now_ms  # type: ignore[method-assign]  # in this process, which ends with the command
    return readings


def _append_to(path: str) -> None:
    """Give the tool `echo` an effect, which is a line in a file, and must not be repeated."""

    def append(call: Call) -> Any:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(fd, call.idempotency_key.encode() + b"\n")
        os.close(fd)
        return as_json(call.args)

    tool = Tool(run=append, effect="write")
    registry.catalogue = lambda: {"echo": tool}


if __name__ == "__main__":
    main()
