"""The last steps of a process before it is the program."""

from __future__ import annotations

import os
import resource

from cruft_sched.linux import identity, landlock
from cruft_sched.linux.kernel import CompartmentError
from cruft_sched.tools.process.wire import FAULT, UNAVAILABLE, same_file

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the supervisor 10 ms
if TYPE_CHECKING:
    import signal
    from typing import NoReturn
else:
    import _signal as signal  # the same without its enumerations, which would cost 3 ms

_SIGNALS = 64


def become(program: int, head: dict[str, int], lists: list[list[bytes]], fault: int, supervisor: int) -> NoReturn:
    """Turn this process into the program, or say why not."""
    try:
        (path, cwd), args, env, reachable = lists
        os.setsid()
        _reset_signals()
        os.umask(0o077)
        _set_limits(head["max_memory_bytes"])
        os.chdir(cwd)
        identity.gain_nothing()
        identity.die_with_driver()
        if os.getppid() != supervisor:
            os._exit(1)
        if head["abi"]:
            landlock.keep_within(map(os.fsdecode, reachable))
            identity.drop_ways_around()
        _execute(program, path, head, [path, *args], dict(map(_pair, env)))
        words = ""
    except CompartmentError as error:
        words = f"{UNAVAILABLE} {error}"
    except OSError as error:
        words = f"{FAULT} {error.strerror or error}"
    except Exception as error:  # whatever it was, the program does not run
        words = f"{FAULT} {type(error).__name__}: {error}"
    os.write(fault, words.encode("utf-8", "replace")[:4096])
    os._exit(1)


def _execute(program: int, path: bytes, head: dict[str, int], argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """Become the very file that was hashed. A script is opened once more, by its interpreter, which needs its path."""
    found = same_file(os.stat(path) if head["script"] else os.fstat(program))
    if any(head[name] != value for name, value in found.items()):
        raise OSError(0, "it changed after it was checked")
    os.execve(path if head["script"] else program, argv, env)  # noqa: S606  # no shell is what this is all about


def _pair(assignment: bytes) -> tuple[bytes, bytes]:
    name, _, value = assignment.partition(b"=")
    return name, value


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in range(1, _SIGNALS + 1):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            continue  # the kernel, or the C library, keeps it to itself
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _set_limits(max_memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if max_memory_bytes:
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        bound = max_memory_bytes if hard == resource.RLIM_INFINITY else min(max_memory_bytes, hard)
        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
