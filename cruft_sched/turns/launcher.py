"""Starts one child, feeds it, reads it, and kills it with everything it started: at its end, or at the wall."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import PathFinder

from cruft_sched.core.outcomes import BudgetError, ChildError
from cruft_sched.errors import SystemFailedError
from cruft_sched.turns.session import TurnFailedError

ENVIRONMENT = {"PYTHONHASHSEED": "0", "TZ": "UTC0"}
"""All of the child's environment. `-I` and `-E` would ignore the hash seed, so they are not given."""

_BOOT = "import sys; sys.path[:0] = sys.argv[3:]; from cruft_sched.turns.child import main; main()"
_CHUNK = 64 << 10


def run_child(job: bytes, timeout_ms: int, max_line_bytes: int, on_line: Callable[[bytes], None]) -> int:
    """Run one child to its end and return its exit code, as a shell counts (128 + n for signal n).

    `on_line` receives each line it writes. Raises TurnFailedError at the wall, on a line that is too long, and whatever
    `on_line` raises; the child and all of its process group are dead by then, as they are on return.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    child, job_pipe, out_pipe = _start()
    try:
        _Talk(job_pipe, out_pipe, job, max_line_bytes, on_line).until(deadline, timeout_ms)
        _await_exit(child.pid, deadline, timeout_ms)
    finally:
        os.close(out_pipe)
        _kill_group(child.pid)
        code = child.wait()
    return code if code >= 0 else 128 - code


def _start() -> tuple[subprocess.Popen[bytes], int, int]:
    """The child, the end of the pipe its job goes into, and the end its messages come out of."""
    job_out, job_in = os.pipe()
    out_out, out_in = os.pipe()
    command = [sys.executable, "-P", "-s", "-S", "-c", _BOOT, str(job_out), str(out_in), *_import_path()]
    try:
        child = subprocess.Popen(  # noqa: S603  # our own interpreter, our own arguments
            command,
            env=ENVIRONMENT,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(job_out, out_in),
            start_new_session=True,
        )
    except BaseException as error:
        os.close(job_in)
        os.close(out_out)
        if isinstance(error, OSError):
            what = f"cannot start a process for the turn: {error.strerror or error}"
            raise SystemFailedError(what, "free some processes or memory, and tick again") from error
        raise
    finally:
        os.close(job_out)
        os.close(out_in)
    return child, job_in, out_out


def _import_path() -> list[str]:
    """Where the child finds this package and the engine: it starts without site-packages."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    spec = PathFinder.find_spec("_quickjs")
    if spec is None or spec.origin is None:
        raise TurnFailedError(
            ChildError(message="the package quickjs-ng is not installed; run pip install cruft-sched")
        )
    return list(dict.fromkeys((package, os.path.dirname(spec.origin))))


class _Talk:
    """Both pipes of one child, served together, so that neither side can block the other."""

    def __init__(
        self, job_pipe: int, out_pipe: int, job: bytes, max_line_bytes: int, on_line: Callable[[bytes], None]
    ) -> None:
        self._job_pipe = job_pipe
        self._out_pipe = out_pipe
        self._job = memoryview(job)
        self._max_line_bytes = max_line_bytes
        self._on_line = on_line
        self._rest = bytearray()
        os.set_blocking(job_pipe, False)
        os.set_blocking(out_pipe, False)

    def until(self, deadline: float, timeout_ms: int) -> None:
        """Serve the pipes until the child closes its end."""
        poll = select.poll()
        poll.register(self._job_pipe, select.POLLOUT)
        poll.register(self._out_pipe, select.POLLIN)
        job_open = True
        try:
            while True:
                ready = dict(poll.poll(_left_ms(deadline, timeout_ms)))
                if job_open and self._job_pipe in ready and self._feed():
                    poll.unregister(self._job_pipe)
                    job_open = False
                    os.close(self._job_pipe)
                if self._out_pipe in ready and not self._take():
                    return
        finally:
            if job_open:
                os.close(self._job_pipe)

    def _feed(self) -> bool:
        """Write some of the job. True when it is all there, or nobody reads it any more."""
        try:
            self._job = self._job[os.write(self._job_pipe, self._job) :]
        except BlockingIOError:
            return False
        except BrokenPipeError:
            return True
        return not self._job

    def _take(self) -> bool:
        """Read some of the messages. False at their end."""
        try:
            data = os.read(self._out_pipe, _CHUNK)
        except BlockingIOError:
            return True
        if not data:
            if self._rest:
                self._on_line(bytes(self._rest))  # a line without its end is no message, and is refused as such
            return False
        self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            self._on_line(bytes(line))
        if len(self._rest) > self._max_line_bytes:
            raise TurnFailedError(
                ChildError(message=f"the turn's process sent a message of more than {self._max_line_bytes} bytes")
            )
        return True


def _left_ms(deadline: float, timeout_ms: int) -> int:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TurnFailedError(
            BudgetError(budget="timeout_ms", limit=timeout_ms, attempted=timeout_ms + int(-left * 1000))
        )
    return int(left * 1000) + 1


def _await_exit(pid: int, deadline: float, timeout_ms: int) -> None:
    """Wait for the child to exit, and leave it unreaped, so that its process group is still its own."""
    pause = 0.0005
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        _left_ms(deadline, timeout_ms)
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def _kill_group(pid: int) -> None:
    """Kill the child's session's first process group: the child, if it lives, and what it started."""
    with suppress(ProcessLookupError, PermissionError):  # macOS says EPERM of a group that has only a zombie left
        os.killpg(pid, signal.SIGKILL)
