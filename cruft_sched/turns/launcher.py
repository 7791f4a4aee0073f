"""Starts one child, feeds it, reads it, and kills it with everything it started: at its end, or at the wall."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import PathFinder

from msgspec import Struct

from cruft_sched.core.outcomes import BudgetError, ChildError, Stopped
from cruft_sched.errors import SystemFailedError, UnavailableError
from cruft_sched.turns.session import TurnFailedError

ENVIRONMENT = {"PYTHONHASHSEED": "0", "TZ": "UTC0"}
"""All of the child's environment. `-I` and `-E` would ignore the hash seed, so they are not given."""

_BOOT = "import sys; sys.path[:0] = sys.argv[3:]; from cruft_sched.turns.child import main; main()"
_CHUNK = 64 << 10
_LOOK_MS = 250
_ASK_S = 0.05


OnLine = Callable[[bytes], bytes | None]


class TurnStoppedError(Exception):
    """The driver was told to stop the turn. `ending` says why."""

    def __init__(self, ending: Stopped) -> None:
        super().__init__(ending.reason)
        self.ending = ending


class Limits(Struct, frozen=True, kw_only=True):
    """What ends a child from outside: the wall clock, a line that is too long, and the driver's own `stop`, which is
    asked four times a second."""

    timeout_ms: int
    max_line_bytes: int
    stop: Callable[[], Stopped | None] = lambda: None


def run_child(
    job: bytes, limits: Limits, on_line: OnLine, wall: Wall | None = None, pause: Callable[[], None] = lambda: None
) -> int:
    """Run one child to its end and return its exit code, as a shell counts (128 + n for signal n).

    `on_line` receives each line it writes, and may return a frame to write back; `pause` is called a few times a
    second, and when `on_line` has had all that was there to be read. `wall` is the one of these limits, where it
    stands already. Raises TurnFailedError at the wall and on a line that is too long, TurnStoppedError when it is
    told to stop, SystemFailedError where no process can be started, and whatever `on_line` raises; the child and its
    process group are dead by then, as on return.
    """
    wall = wall or Wall(limits)
    child, job_pipe, out_pipe = _start()
    try:
        _Talk(job_pipe, out_pipe, job, limits.max_line_bytes, on_line, pause).until_closed(wall)
        _await_exit(child.pid, wall)
    finally:
        os.close(job_pipe)
        os.close(out_pipe)
        _kill_group(child.pid)
        code = child.wait()
    return code if code >= 0 else 128 - code


def _start() -> tuple[subprocess.Popen[bytes], int, int]:
    """The child, the end of the pipe its job goes into, and the end its messages come out of."""
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # its end would be reaped, and its exit code lost
        raise SystemFailedError("this process ignores SIGCHLD", "restore its default before running turns")
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
        raise UnavailableError("the package quickjs-ng is not installed", "run `pip install cruft-sched` once more")
    return list(dict.fromkeys((package, os.path.dirname(spec.origin))))


class _Talk:
    """Both pipes of one child, served together, so that neither side can block the other."""

    def __init__(
        self,
        job_pipe: int,
        out_pipe: int,
        job: bytes,
        max_line_bytes: int,
        on_line: OnLine,
        pause: Callable[[], None],
    ) -> None:
        self._job_pipe = job_pipe
        self._out_pipe = out_pipe
        self._unsent = memoryview(job)
        self._max_line_bytes = max_line_bytes
        self._on_line = on_line
        self._pause = pause
        self._answered = False
        self._rest = bytearray()
        self._poll = select.poll()
        os.set_blocking(job_pipe, False)
        os.set_blocking(out_pipe, False)

    def until_closed(self, wall: Wall) -> None:
        """Serve the pipes until the child closes its end."""
        self._poll.register(self._job_pipe, select.POLLOUT)
        self._poll.register(self._out_pipe, select.POLLIN)
        while True:
            ready = dict(self._poll.poll(wall.left_ms()))
            if self._job_pipe in ready:
                self._feed()
            if self._out_pipe in ready and not self._take():
                return
            self._pause()

    def _feed(self) -> None:
        """Write some of the job, or of an answer, and listen no more when it is all there, or nobody reads it."""
        try:
            self._unsent = self._unsent[os.write(self._job_pipe, self._unsent) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._unsent = memoryview(b"")
        if not self._unsent:
            self._poll.unregister(self._job_pipe)

    def _answer(self, answer: bytes) -> None:
        if self._unsent:
            raise TurnFailedError(ChildError(message="the turn's process asked before it had read its job"))
        self._answered = True
        self._poll.register(self._job_pipe, select.POLLOUT)
        self._unsent = memoryview(answer)
        self._feed()

    def _check_answer_was_read(self) -> None:
        """Raise where the child speaks on before it has read what it asked for."""
        if not self._answered:
            return
        unread = fcntl.ioctl(self._job_pipe, termios.FIONREAD, b"\0" * 4)
        if self._unsent or any(unread):
            raise TurnFailedError(ChildError(message="the turn's process spoke before it had read its last answer"))
        self._answered = False

    def _take(self) -> bool:
        """Read some of the messages. False at their end."""
        try:
            data = os.read(self._out_pipe, _CHUNK)
        except BlockingIOError:
            return True
        if not data:
            if self._rest:
                raise TurnFailedError(ChildError(message="the turn's process ended in the middle of a message"))
            return False
        self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            self._check_answer_was_read()
            answer = self._on_line(bytes(line))
            if answer is not None:
                self._answer(answer)
        if len(self._rest) > self._max_line_bytes:
            raise TurnFailedError(
                ChildError(message=f"the turn's process sent a message of more than {self._max_line_bytes} bytes")
            )
        return True


class Wall:
    """Tells how long to wait for the child before looking again, or raises when it is to end. Its time runs from when
    it is made."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._deadline = time.monotonic() + limits.timeout_ms / 1000
        self._ask_at = 0.0
        self._stopped: Stopped | None = None

    def passed(self) -> bool:
        """Whether the child is to end."""
        try:
            self.left_ms()
        except (TurnFailedError, TurnStoppedError):
            return True
        return False

    def left_ms(self) -> int:
        now = time.monotonic()
        if self._stopped is None and now >= self._ask_at:  # it looks at the disk, and a turn may speak at any rate
            self._ask_at = now + _ASK_S
            self._stopped = self._limits.stop()
        if self._stopped is not None:
            raise TurnStoppedError(self._stopped)
        left = self._deadline - now
        if left <= 0:
            limit = self._limits.timeout_ms
            attempted = limit + int(-left * 1000)
            raise TurnFailedError(BudgetError(budget="timeout_ms", limit=limit, attempted=attempted))
        return min(int(left * 1000) + 1, _LOOK_MS)


def _await_exit(pid: int, wall: Wall) -> None:
    """Wait for the child to exit, and leave it unreaped, so that its process group is still its own."""
    pause = 0.0005
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        wall.left_ms()
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def _kill_group(pid: int) -> None:
    """Kill the child's session's first process group: the child, if it lives, and what it started."""
    with suppress(ProcessLookupError, PermissionError):  # macOS says EPERM of a group that has only a zombie left
        os.killpg(pid, signal.SIGKILL)
