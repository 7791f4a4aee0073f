"""Numbers the operations on the disk, makes one fail, or kills the process at one.

Run as a program it wraps a whole command:  python -m tests.seam N WHAT ARGUMENT…  where WHAT is a name of FAULTS, or
that of an error (`ENOSPC`), and N is the operation it befalls, counted from 0. `count` runs the command undisturbed
and prints how many operations it made as the last line on standard error.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from cruft_sched.stores import disk

Operation = Callable[..., Any]
Around = Callable[[int, str, Operation], Operation]
"""What an operation is replaced by: of its number, its name, and the real one."""


class Seam:
    """Stands between the stores and the disk."""

    def __init__(self, around: Around | None = None) -> None:
        """`around` says what is done in the place of each operation."""
        self.seen: list[str] = []
        self._around = around
        self._real = {name: getattr(disk, name) for name in disk.OPERATIONS}

    def __enter__(self) -> Seam:
        for name, real in self._real.items():
            setattr(disk, name, self._wrapped(name, real))
        return self

    def __exit__(self, *_: object) -> None:
        for name, real in self._real.items():
            setattr(disk, name, real)

    def _wrapped(self, name: str, real: Operation) -> Operation:
        def operation(*arguments: Any, **options: Any) -> Any:
            number = len(self.seen)
            self.seen.append(name)
            chosen = real if self._around is None else self._around(number, name, real)
            return chosen(*arguments, **options)

        return operation


def before(hook: Callable[[int, str], None]) -> Around:
    """Call a test's own function before each operation, which it can keep from being done."""

    def around(number: int, name: str, real: Operation) -> Operation:
        hook(number, name)
        return real

    return around


def failing(number: int, code: int) -> Around:
    """Make operation `number` fail."""
    return befalling("fail", number, code=code)


def killing(number: int) -> Around:
    """End this process, as a power cut would, before operation `number`."""
    return befalling("kill", number)


def die() -> None:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_before(_code: int, _real: Operation) -> Operation:
    return lambda *_arguments, **_options: die()


def _kill_after(_code: int, real: Operation) -> Operation:
    def operation(*arguments: Any, **options: Any) -> None:
        try:
            real(*arguments, **options)
        finally:
            die()

    return operation


def _signal(number: int, real: Operation) -> Operation:
    """What Ctrl-C does, or whoever ends the program: it is told so, just before the operation."""

    def operation(*arguments: Any, **options: Any) -> Any:
        os.kill(os.getpid(), number)
        return real(*arguments, **options)

    return operation


def _fail(code: int, _real: Operation) -> Operation:
    def operation(*_arguments: Any, **_options: Any) -> NoReturn:
        raise OSError(code, os.strerror(code))

    return operation


def _short(_code: int, real: Operation) -> Operation:
    """Take half of what is to be written, as the system may."""
    return lambda fd, data: real(fd, data[: max(1, len(data) // 2)])


def _torn(code: int, real: Operation) -> Operation:
    """Take half of what is to be written, and then fail."""

    def operation(fd: int, data: Any) -> NoReturn:
        real(fd, data[: len(data) // 2])
        raise OSError(code, os.strerror(code))

    return operation


FAULTS: dict[str, Callable[[int, Operation], Operation]] = {
    "kill": _kill_before,
    "kill-after": _kill_after,
    "signal": _signal,
    "fail": _fail,
    "short": _short,
    "torn": _torn,
}


def befalling(what: str, number: int, *, code: int = 0, name: str | None = None, lasting: bool = False) -> Around:
    """A fault of FAULTS at operation `number`; of those called `name` alone, where it is given; `lasting`: at all that
    follow, too."""
    seen = 0

    def around(_number: int, called: str, real: Operation) -> Operation:
        nonlocal seen
        if name is not None and called != name:
            return real
        here, seen = seen, seen + 1
        return FAULTS[what](code, real) if here == number or (lasting and here > number) else real

    return around


def main() -> None:
    from cruft_sched.cli.app import run

    number, what, *arguments = sys.argv[1:]
    code = 0 if what in FAULTS or what == "count" else getattr(errno, what)
    around = None if what == "count" else befalling("fail" if code else what, int(number), code=code)
    with Seam(around) as seam:
        code = run(arguments)
    if what == "count":
        sys.stderr.write(f"{len(seam.seen)}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
