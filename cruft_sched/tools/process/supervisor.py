"""The process between the driver and a program that it runs: `python -I -S`, and nothing else in it.

Every descendant of the program whose parent ends becomes a child of this process (a subreaper), whatever session it
made for itself. So none gets away: this process ends when it has no children left, and kills all it has when the
program ends, when the driver tells it to, or dies, at the timeout, and when there are too many.
"""

from __future__ import annotations

import os
import select
import sys
import time

from cruft_sched.linux import identity, landlock
from cruft_sched.linux.kernel import CompartmentError
from cruft_sched.tools.process.descendants import can_be_listed, descendants, kill
from cruft_sched.tools.process.start import become
from cruft_sched.tools.process.wire import CROWD, EXIT, FAULT, TIMEOUT, TOLD, UNAVAILABLE, read_order

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the supervisor 10 ms
if TYPE_CHECKING:
    import signal
    from typing import NoReturn
else:
    import _signal as signal  # the same without its enumerations, which would cost 3 ms

_LOOK_MS, _GROWING_MS, _KILL_MS = 50, 5, 5
"""How often the processes are counted, and how often while they grow in number: a fork bomb doubles in a moment."""

_AHEAD = 15
"""How much more of the processor this process asks for than the program, as root: it is to win against a fork bomb."""


def main() -> NoReturn:
    """Do the order that comes in on descriptor argv[1]; the program is open as descriptor argv[2]; argv[3] is the
    driver."""
    control, program, driver = (int(text) for text in sys.argv[1:4])
    os.set_inheritable(control, False)
    os.set_inheritable(program, False)
    try:
        words = _work(control, program, driver)
    except CompartmentError as error:
        words = f"{UNAVAILABLE} {error}"
    except Exception as error:  # whatever it was, the driver is to know
        words = f"{FAULT} its supervisor failed ({type(error).__name__}: {error})"
    try:
        os.write(control, words.encode("utf-8", "replace")[:4096])
    finally:  # nobody may be there to be told
        os._exit(0)


def _work(control: int, program: int, driver: int) -> str:
    wake = _listen()
    identity.die_with_driver(signal.SIGTERM)
    if os.getppid() != driver:
        return TOLD
    identity.hide_memory()
    identity.adopt_orphans()
    if not can_be_listed():
        raise CompartmentError(
            "a process cannot list its children here (/proc/PID/task/PID/children)",
            "mount /proc, and use a kernel with CONFIG_PROC_CHILDREN",
        )
    order = read_order(control)
    if order is None:
        return TOLD
    head, lists = order
    head["abi"] = landlock.version() if head["confined"] else 0
    if head["required"] and not head["abi"]:
        raise CompartmentError("the kernel has no Landlock, so nothing can be kept out of reach", landlock.REMEDY)
    return _Family(control, wake, head).run(program, lists)


_told: list[bool] = []


def _listen() -> int:
    """The descriptor that becomes readable when a child ends, and when the driver has died."""
    wake, waker = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: _told.append(True))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the driver may have blocked them
    return wake


class _Family:
    """The program, and all that it starts."""

    def __init__(self, control: int, wake: int, head: dict[str, int]) -> None:
        self._control = control
        self._wake = wake
        self._head = head
        self._deadline = time.monotonic() + head["timeout_ms"] / 1000
        self._look_ms, self._look_at, self._count = _LOOK_MS, 0.0, 1
        self._pid = 0
        self._faults = b""
        self._code: int | None = None

    def run(self, program: int, lists: list[list[bytes]]) -> str:
        """Start the program, wait for its end, and end all that is left. Returns what to tell the driver."""
        faults, fault = os.pipe()
        supervisor = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            become(program, self._head, lists, fault, supervisor)
        try:
            if os.geteuid() == 0:
                _hurry()
            os.close(fault)
            os.close(program)
            why = self._watch(faults)
            if why in (TOLD, TIMEOUT):
                self._ask_to_end()
        finally:
            self._kill_all()
        if self._faults:
            return self._faults.decode("utf-8", "replace")
        return f"{why} {self._code} {self._head['abi']}"

    def _watch(self, faults: int) -> str:
        """Wait until there is a reason to end it all. `faults` is closed by the start of the program."""
        poll = select.poll()
        for descriptor in (self._control, self._wake, faults):
            poll.register(descriptor, select.POLLIN)
        while True:
            ready = dict(poll.poll(self._look_ms))
            if faults in ready:
                piece = os.read(faults, 4096)
                self._faults += piece
                if not piece:
                    poll.unregister(faults)
                    os.close(faults)
                    faults = -1
            now = time.monotonic()
            self._reap()
            if self._ended() and faults < 0:
                return EXIT
            if self._control in ready or _told:
                return TOLD
            if now > self._deadline:
                return TIMEOUT
            if now >= self._look_at and self._too_many(now):
                return CROWD

    def _too_many(self, now: float) -> bool:
        count = sum(1 for _ in descendants())
        self._look_ms = _GROWING_MS if count > self._count else _LOOK_MS
        self._look_at = now + self._look_ms / 1000
        self._count = count
        return count > self._head["max_processes"]

    def _ask_to_end(self) -> None:
        """Let the program put things in order, for a moment."""
        until = time.monotonic() + self._head["grace_ms"] / 1000
        if self._ended() or not self._head["grace_ms"]:
            return
        try:
            os.killpg(self._pid, signal.SIGTERM)
        except ProcessLookupError:  # it has no session of its own yet
            return
        while not self._ended() and time.monotonic() < until:
            self._rest()
            self._reap()

    def _ended(self) -> bool:
        return self._code is not None

    def _kill_all(self) -> None:
        """Kill until there is no child left. What was killed forks no more, so what is left grows fewer."""
        while True:
            for pid, parent in descendants():
                kill(pid, parent)
            if not self._reap():
                return
            self._rest()

    def _rest(self) -> None:
        select.select([self._wake], [], [], _KILL_MS / 1000)

    def _reap(self) -> bool:
        """Whether there are children still."""
        _drain(self._wake)
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._pid:
                    self._code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            return False


def _hurry() -> None:
    try:
        os.setpriority(os.PRIO_PROCESS, 0, max(-20, os.getpriority(os.PRIO_PROCESS, 0) - _AHEAD))
    except OSError:
        return  # a root without that right


def _drain(wake: int) -> None:
    try:
        while os.read(wake, 512):
            pass
    except BlockingIOError:
        return
