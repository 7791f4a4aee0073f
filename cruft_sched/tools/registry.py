"""The catalogue: every tool that an agent can call, what it takes, and what it does. A literal table.

A tool's own module is imported when it is called: a tick that calls none pays for none.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from cruft_sched.tools.tool import Call, Outcome, Tool


def _of(module: str) -> Callable[[Call], Outcome]:
    """The function of a tool's module, which is imported when it is called."""

    def run(call: Call) -> Outcome:
        outcome: Outcome = import_module(f"cruft_sched.tools.{module}").run(call)
        return outcome

    return run


_TEXT = {"type": "string"}
_SIZE = {"type": "integer", "minimum": 0}
_READS = ("fs_read", "fs_read_include", "fs_read_exclude")


def _fields(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object that has these fields, and no others."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


TOOLS: dict[str, Tool] = {
    "echo": Tool(run=_of("echo"), about="gives its arguments back"),
    "fail": Tool(run=_of("fail"), about="always goes wrong, in the same way"),
    "slow": Tool(
        run=_of("slow"),
        about="takes `delay_ms` and gives `value` back; longer than its `timeout_ms` (250), it times out",
        args={"type": "object", "properties": {"delay_ms": _SIZE, "value": {}}},
        checkable=("ok", "value"),
    ),
    "readFile": Tool(
        run=_of("read_file"),
        about="gives a text file below one of `fs_read`, or a page of it",
        needs=_READS,
        args=_fields("path", path=_TEXT, offset=_SIZE, limit={"type": "integer", "minimum": 1}),
        checkable=("text", "bytes"),
    ),
    "listFiles": Tool(
        run=_of("list_files"),
        about="lists the files that `readFile` could read",
        needs=_READS,
        args=_fields(
            path=_TEXT,
            glob={"type": "string", "maxLength": 1000},
            after=_TEXT,
            limit={"type": "integer", "minimum": 1, "maximum": 10_000},
        ),
        checkable=("entries",),
    ),
    "writeArtifact": Tool(
        run=_of("write_artifact"),
        about="writes a text file below one of `fs_write`, whole or not at all",
        effect="write",
        needs=("fs_write",),
        args=_fields("path", "text", path=_TEXT, text=_TEXT, overwrite={"type": "boolean"}),
        checkable=("bytes", "hash"),
    ),
    "readResult": Tool(
        run=_of("read_result"),
        about="gives a page of a result of this job that was kept, since it was too large",
        args=_fields("result", result=_TEXT, offset=_SIZE, limit={"type": "integer", "minimum": 1}),
    ),
    "process": Tool(
        run=_of("process.tool"),
        about="runs one of `process_commands`, with no shell, and gives its exit code and what it printed",
        effect="write",
        needs=("process_commands", "process_args", "process_cwd", "process_env"),
        args=_fields("command", command=_TEXT, args={"type": "array", "items": _TEXT}, stdin=_TEXT),
        checkable=("exit_code", "stdout"),
    ),
}


def catalogue() -> dict[str, Tool]:
    """The tools that come with the engine, by name."""
    return TOOLS


def find(name: str) -> Tool | None:
    """The tool of a name, or None."""
    return catalogue().get(name)
