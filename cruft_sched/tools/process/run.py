"""Runs one program to its end, and all that it starts: the engine of the tool `process`. docs/process.md says what it
promises."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO

from cruft_sched.errors import DataError, SystemFailedError, UnavailableError, UsageError
from cruft_sched.tools.process import wire
from cruft_sched.tools.process.executable import check_program, is_script, opened_program
from cruft_sched.tools.process.order import Output, ProcessOrder, ProcessResult, Signal, order_fault
from cruft_sched.tools.process.pipes import Capture, Feed
from cruft_sched.tools.process.reach import reachable

__all__ = ["Output", "ProcessOrder", "ProcessResult", "Signal", "run_process"]

_BOOT = "import sys; sys.path.insert(0, sys.argv[4]); from cruft_sched.tools.process.supervisor import main; main()"
_PACKAGE = os.path.abspath(os.path.join(__file__, "..", "..", "..", ".."))
_ASK_S = 0.05
_SUPERVISOR_GRACE_MS = 500
"""How long after the driver should have ended the program its supervisor does it."""
_PATIENCE_S = 10.0
"""How long processes may take to die: one that waits for a dead disk takes as long as that."""


def run_process(order: ProcessOrder, stop: Callable[[], object]) -> ProcessResult:
    """Run a program until it ends, until `stop` says something true-ish (it is asked 20 times a second), or until its
    time is up. On return, and when anything is raised, it and all that it started are dead.

    Raises UsageError for an order that makes no sense, ChangedError where the program is not the one that is expected,
    DataError where it cannot be run, UnavailableError where this machine cannot run it as safely as is asked,
    SystemFailedError where the system refuses a process, or one cannot be killed, and whatever `stop` raises.
    """
    started = time.monotonic()
    fault = order_fault(order)
    if fault is not None:
        raise UsageError(f"the process is refused: {fault}", "correct it")
    if sys.platform != "linux":
        raise UnavailableError("processes are run on Linux only", "use another machine")
    if not os.path.isdir(order.cwd):
        raise DataError(f"there is no folder {order.cwd}", "check process_cwd")
    with ExitStack() as stack:
        program = stack.enter_context(opened_program(order.executable))
        out, out_in = _pipe(stack)
        err, err_in = _pipe(stack)
        source, feed = _input(stack, order.stdin)
        captures = Capture(out, order.max_output_bytes), Capture(err, order.max_output_bytes)
        control = stack.enter_context(_supervised(program, source, out_in, err_in))
        _send(control, _packed(order, program))
        run = _Run(order, stop, started, control.fileno(), captures, feed)
        words = run.until_ended(lambda: control.shutdown(socket.SHUT_WR))
    return _result(order, words, run, captures, started)


def _pipe(stack: ExitStack) -> tuple[int, FileIO]:
    reading, writing = os.pipe()
    stack.callback(os.close, reading)
    return reading, stack.enter_context(FileIO(writing, "w"))


def _input(stack: ExitStack, text: str | None) -> tuple[FileIO, Feed | None]:
    """The program's end of its input, and ours."""
    if text is None:
        return stack.enter_context(FileIO(os.devnull)), None
    reading, writing = os.pipe()
    feed = Feed(writing, text.encode("utf-8", "replace"))
    stack.callback(feed.close)
    return stack.enter_context(FileIO(reading)), feed


@contextmanager
def _supervised(program: int, *standard: FileIO) -> Iterator[socket.socket]:
    """A supervisor with these standard descriptors, which are closed here, and the line to it. At the end it is gone,
    and with it what it started: it takes a closed line for the order to end."""
    ours, theirs = socket.socketpair()
    try:
        child = _start(program, theirs.fileno(), standard)
    except OSError as error:
        ours.close()
        what = f"cannot start a process: {error.strerror or error}"
        raise SystemFailedError(what, "free some processes or memory, and try again") from error
    finally:
        theirs.close()
        for file in standard:
            file.close()
    try:
        yield ours
    finally:
        ours.close()
        try:
            child.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise _cannot_kill() from None


def _start(program: int, control: int, standard: tuple[FileIO, ...]) -> subprocess.Popen[bytes]:
    source, out, err = standard
    numbers = [str(number) for number in (control, program, os.getpid())]
    return subprocess.Popen(  # noqa: S603  # our own interpreter, our own arguments
        [sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOT, *numbers, _PACKAGE],
        env={},
        cwd="/",
        stdin=source,
        stdout=out,
        stderr=err,
        pass_fds=(control, program),
        start_new_session=True,
    )


def _packed(order: ProcessOrder, program: int) -> bytes:
    """The order as the supervisor reads it. Made while that starts."""
    file = check_program(program, order.executable, order.expected_hash)
    confined = order.isolation == "strict"
    head = {
        **file,
        "script": is_script(program),
        "confined": confined,
        "required": confined and bool(order.out_of_reach),
        "timeout_ms": order.timeout_ms + _SUPERVISOR_GRACE_MS,
        "grace_ms": order.grace_ms,
        "max_processes": order.max_processes,
        "max_memory_bytes": order.max_memory_bytes or 0,
    }
    return wire.pack(
        head,
        [os.fsencode(order.executable), os.fsencode(order.cwd)],
        [arg.encode() for arg in order.args],
        [f"{name}={value}".encode() for name, value in order.env.items()],
        [os.fsencode(path) for path in reachable(order.out_of_reach)] if confined else [],
    )


def _send(control: socket.socket, order: bytes) -> None:
    control.settimeout(_PATIENCE_S)
    with suppress(BrokenPipeError, ConnectionResetError):  # then it has said why, or nothing
        try:
            control.sendall(order)
        except TimeoutError:
            raise SystemFailedError("a process's supervisor does not start", "look at the machine's load") from None


class _Run:
    """A program from its start to its end."""

    def __init__(
        self,
        order: ProcessOrder,
        stop: Callable[[], object],
        started: float,
        control: int,
        captures: tuple[Capture, Capture],
        feed: Feed | None,
    ) -> None:
        self.timed_out = self.stopped = False
        self._stop = stop
        self._deadline = started + order.timeout_ms / 1000
        self._give_up_after = order.grace_ms / 1000 + _PATIENCE_S
        self._ask_at = 0.0
        self._control = control
        self._readers = {capture.fd: capture for capture in captures}
        self._feed = feed
        self._words = b""
        self._poll = select.poll()
        for descriptor in (control, *self._readers):
            self._poll.register(descriptor, select.POLLIN)
        if feed is not None:
            self._poll.register(feed.fd, select.POLLOUT)

    def until_ended(self, end: Callable[[], None]) -> str:
        """Serve the pipes until the supervisor is gone, and give what it said. `end` tells it to end the program."""
        while True:
            ready = dict(self._poll.poll(self._wait_ms()))
            self._serve(ready)
            if self._control in ready and not self._listen():
                for capture in self._readers.values():
                    capture.take_rest()
                return self._words.decode("utf-8", "replace")
            self._look(end)

    def _serve(self, ready: dict[int, int]) -> None:
        for fd in [fd for fd in self._readers if fd in ready]:
            if not self._readers[fd].take():
                self._poll.unregister(fd)
                del self._readers[fd]
        if self._feed is not None and self._feed.fd in ready and not self._feed.give():
            self._poll.unregister(self._feed.fd)
            self._feed.close()
            self._feed = None

    def _listen(self) -> bool:
        try:
            words = os.read(self._control, 4096)
        except ConnectionResetError:  # it died with some of the order unread
            return False
        self._words += words
        return bool(words)

    def _wait_ms(self) -> float:
        return max(0.0, min(_ASK_S, self._deadline - time.monotonic())) * 1000 + 1

    def _look(self, end: Callable[[], None]) -> None:
        """Have the program ended when its time is up, or when nobody waits for it any more."""
        now = time.monotonic()
        if self.timed_out or self.stopped:
            if now > self._deadline:
                raise _cannot_kill()
            return
        if now >= self._deadline:
            self.timed_out = True
        elif now >= self._ask_at:
            self._ask_at = now + _ASK_S
            self.stopped = bool(self._stop())
        if self.timed_out or self.stopped:
            self._deadline = now + self._give_up_after
            with suppress(OSError):  # it is gone already
                end()


def _cannot_kill() -> SystemFailedError:
    what = "processes were killed and do not end"
    return SystemFailedError(what, "look for ones in state D (`ps`), which wait for a disk or a network that is gone")


def _result(
    order: ProcessOrder, words: str, run: _Run, captures: tuple[Capture, Capture], started: float
) -> ProcessResult:
    kind, _, rest = words.partition(" ")
    if kind == wire.UNAVAILABLE:
        what, _, todo = rest.partition("; ")
        raise UnavailableError(what, todo)
    if kind == wire.FAULT:
        raise DataError(f"program {order.executable} cannot be run: {rest}", "check it, its interpreter and its folder")
    code_text, _, abi = rest.partition(" ")
    if not abi:
        raise SystemFailedError("a process's supervisor was killed", "look whether memory ran out, and try again")
    code = None if code_text == "None" else int(code_text)
    out, err = (capture.output() for capture in captures)
    return ProcessResult(
        exit_code=code if code is None or code >= 0 else None,
        signal=_signal(-code) if code is not None and code < 0 else None,
        timed_out=kind == wire.TIMEOUT or (kind == wire.TOLD and run.timed_out),
        stopped=kind == wire.TOLD and run.stopped,
        too_many_processes=kind == wire.CROWD,
        stdout=out,
        stderr=err,
        duration_ms=int((time.monotonic() - started) * 1000),
        landlock_abi=int(abi),
    )


def _signal(number: int) -> Signal:
    try:
        return Signal(number, signal.Signals(number).name)
    except ValueError:  # a real-time signal has no name of its own
        return Signal(number, f"signal {number}")
