"""Counts the operations on the disk, makes one fail, or kills the process there.

Run as a program it wraps a whole command:  python -m tests.seam N WHAT ARGUMENT…  where WHAT is `kill`, or the name
of an error (`ENOSPC`), and N is the operation it befalls, counted from 0. `count` runs the command undisturbed and
prints how many operations it made as the last line on standard error.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from cruft_sched.stores import disk


class Seam:
    """Stands between the stores and the disk."""

    def __init__(self, fault: Callable[[int, str], None] | None = None) -> None:
        self.seen: list[str] = []
        self._fault = fault
        self._real = {name: getattr(disk, name) for name in disk.OPERATIONS}

    def __enter__(self) -> Seam:
        for name, real in self._real.items():
            setattr(disk, name, self._wrapped(name, real))
        return self

    def __exit__(self, *_: object) -> None:
        for name, real in self._real.items():
            setattr(disk, name, real)

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any, **options: Any) -> Any:
            self.seen.append(name)
            if self._fault is not None:
                self._fault(len(self.seen) - 1, name)
            return real(*arguments, **options)

        return operation


def failing(number: int, code: int) -> Callable[[int, str], None]:
    """A fault that makes operation `number` fail."""

    def fault(seen: int, _name: str) -> None:
        if seen == number:
            raise OSError(code, os.strerror(code))

    return fault


def killing(number: int) -> Callable[[int, str], None]:
    """A fault that ends this process, as a power cut would, before operation `number`."""

    def fault(seen: int, _name: str) -> None:
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return fault


def main() -> None:
    from cruft_sched.cli.app import run

    number, what, *arguments = sys.argv[1:]
    faults = {"count": None, "kill": killing(int(number))}
    fault = faults[what] if what in faults else failing(int(number), getattr(errno, what))
    with Seam(fault) as seam:
        code = run(arguments)
    if what == "count":
        sys.stderr.write(f"{len(seam.seen)}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
