"""Orders for real programs, and a line by which a test sees whether any process of a tree is alive."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from blake3 import blake3

from cruft_sched.tools.process.run import ProcessOrder, ProcessResult, run_process

PYTHON = os.path.realpath(sys.executable)

TREE = """
import os, signal, sys
line = os.open(sys.argv[1], os.O_WRONLY)
def stay(name):
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    signal.alarm(60)
    os.write(line, name + b"\\n")
    while True:
        signal.pause()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        stay(b"grandchild")
    os._exit(0)
os.wait()
if os.fork() == 0:
    os.setpgid(0, 0)
    stay(b"child")
"""
"""A grandchild in a session of its own, whose parent is gone, and a child in a group of its own; both ignore all that
can be ignored. Each holds argv[1] open. The alarm is for the machine: a fault of ours is to leave nothing on it."""


@cache
def hash_of(path: str) -> str:
    return f"blake3:{blake3(Path(path).read_bytes()).hexdigest()}"


def order(executable: str, *args: str, **fields: Any) -> ProcessOrder:
    given: dict[str, Any] = {"cwd": "/", "timeout_ms": 20_000, "max_output_bytes": 1 << 16}
    given |= {"expected_hash": hash_of(executable)} if "expected_hash" not in fields else {}
    return ProcessOrder(executable=executable, args=list(args), **(given | fields))


def python(code: str, *args: str, **fields: Any) -> ProcessOrder:
    return order(PYTHON, "-I", "-S", "-c", code, *args, **fields)


def run(made: ProcessOrder, stop: Callable[[], object] = lambda: None) -> ProcessResult:
    return run_process(made, stop)


class Lifeline:
    """A FIFO that processes hold open. It has an end only when each of them is dead."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._seen = b""

    def lines(self, count: int) -> list[str]:
        """Wait for so many lines."""
        while self._seen.count(b"\n") < count:
            assert self._readable(20), f"only {self._seen!r} came"
            self._seen += os.read(self._fd, 4096)
        return self._seen.decode().splitlines()

    def all_dead(self, within_s: float = 0) -> bool:
        """Whether nobody holds it any more, now or soon."""
        while self._readable(within_s):
            try:
                if not os.read(self._fd, 4096):
                    return True
            except BlockingIOError:
                return False
        return False

    def close(self) -> None:
        os.close(self._fd)

    def _readable(self, within_s: float) -> bool:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(within_s * 1000))


@contextmanager
def lifeline(folder: Path) -> Iterator[Lifeline]:
    line = Lifeline(folder / "line")
    try:
        yield line
    finally:
        line.close()
