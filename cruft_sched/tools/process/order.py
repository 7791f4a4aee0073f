"""What a process is to be, and what became of it."""

from __future__ import annotations

import os
import re

from msgspec import Struct

from cruft_sched.core.policy import Isolation
from cruft_sched.tools.process.arguments import MAX_ARG_BYTES, MAX_ARGS, text_fault

_HASH = re.compile(r"blake3:[0-9a-f]{64}\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_MAX_PATH_BYTES = 4095
_MAX_STDIN_BYTES = 64 << 20
_LEAST = {"timeout_ms": 1, "max_output_bytes": 0, "grace_ms": 0, "max_processes": 1}


class ProcessOrder(Struct, frozen=True, kw_only=True):
    """One run of one program. Paths are absolute; times are milliseconds.

    `executable` must have `expected_hash` (`blake3:` and 64 hexadecimal digits). It gets exactly `args` and `env`, and
    `stdin` as its input, or none. Of each output `max_output_bytes` are kept. Nothing in `out_of_reach` can be opened
    by it; `isolation="process"` does without that. When it is to end it is asked to (SIGTERM), and killed `grace_ms`
    later. With more than `max_processes` alive at once, itself among them, it is killed; `max_memory_bytes` is the
    address space of each.
    """

    executable: str
    expected_hash: str
    args: list[str] = []
    cwd: str
    env: dict[str, str] = {}
    stdin: str | None = None
    timeout_ms: int
    max_output_bytes: int
    out_of_reach: list[str] = []
    isolation: Isolation = "strict"
    grace_ms: int = 200
    max_processes: int = 512
    max_memory_bytes: int | None = None


class Output(Struct, frozen=True, kw_only=True):
    """One output: the first of its text, with U+FFFD for what is no UTF-8; how many bytes the program wrote, and how
    many of them are not in the text."""

    text: str
    bytes: int
    dropped_bytes: int

    @property
    def truncated(self) -> bool:
        """Whether there was more than was kept."""
        return self.dropped_bytes > 0


class Signal(Struct, frozen=True):
    """What killed the program."""

    number: int
    name: str


class ProcessResult(Struct, frozen=True, kw_only=True):
    """How a program ended: with an exit code, or by a signal. It was told to end if one of the next three is true.

    `landlock_abi` is the version of what kept `out_of_reach` out of its reach; 0 where nothing did.
    """

    exit_code: int | None
    signal: Signal | None
    timed_out: bool
    stopped: bool
    too_many_processes: bool
    stdout: Output
    stderr: Output
    duration_ms: int
    landlock_abi: int


def order_fault(order: ProcessOrder) -> str | None:
    """What is wrong with an order by itself."""
    if not _HASH.match(order.expected_hash):
        return "expected_hash is not `blake3:` and 64 hexadecimal digits"
    return _path_fault(order) or _text_fault(order) or _limit_fault(order)


def _path_fault(order: ProcessOrder) -> str | None:
    named = [(f"out_of_reach {at}", path) for at, path in enumerate(order.out_of_reach)]
    for name, path in (("executable", order.executable), ("cwd", order.cwd), *named):
        try:
            size = len(os.fsencode(path))
        except UnicodeEncodeError:
            return f"{name} is no path of this system"
        if not path.startswith("/") or "\0" in path or size > _MAX_PATH_BYTES:
            return f"{name} is no absolute path: {path[:200]!a}"
    return None


def _text_fault(order: ProcessOrder) -> str | None:
    if len(order.args) > MAX_ARGS:
        return f"more than {MAX_ARGS} arguments"
    texts = [(f"argument {at}", arg, MAX_ARG_BYTES) for at, arg in enumerate(order.args)]
    for name, value in order.env.items():
        if not _VARIABLE.match(name):
            return f"this names no variable: {name[:200]!a}"
        texts.append((f"variable {name[:200]}", value, MAX_ARG_BYTES - len(name) - 1))
    for name, text, max_bytes in texts:
        fault = text_fault(text, max_bytes)
        if fault is not None:
            return f"{name} {fault}"
    return None


def _limit_fault(order: ProcessOrder) -> str | None:
    if order.stdin is not None and len(order.stdin.encode("utf-8", "replace")) > _MAX_STDIN_BYTES:
        return f"stdin has more than {_MAX_STDIN_BYTES} bytes"
    for name, bound in _LEAST.items():
        if getattr(order, name) < bound:
            return f"{name} is less than {bound}"
    if order.max_memory_bytes is not None and order.max_memory_bytes < 1:
        return "max_memory_bytes is less than 1"
    return None
