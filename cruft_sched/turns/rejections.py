"""Promises that were rejected and that nobody handled.

`async function main() { … } main();` is how many agents are written, and an error in it would vanish: the engine tells
of it only through a callback that its Python package does not offer. So the callback is set on the engine itself, by
ctypes. Where anything is not as expected (a build without these symbols, another layout), nothing is watched, and the
agent runs as it would have without this.
"""

from __future__ import annotations

import ctypes

import _quickjs

from cruft_sched.turns.engine import runtime_of

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable


class _Value(ctypes.Structure):
    """A JavaScript value, as the engine passes it on 64-bit machines."""

    _fields_ = (("payload", ctypes.c_uint64), ("tag", ctypes.c_int64))


_Tracker = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _Value, _Value, ctypes.c_bool, ctypes.c_void_p)


def watch(engine: _quickjs.Context) -> Callable[[], str | None]:
    """Watch an engine. What is returned tells the reason of a rejection that nobody has handled so far, or None."""
    try:
        library = ctypes.CDLL(_quickjs.__file__)  # it lets go of the interpreter: a reason's toString may call the host
        runtime = runtime_of(engine, library)
        track, dup = library.JS_SetHostPromiseRejectionTracker, library.JS_DupValue
        read, free = library.JS_ToCStringLen2, library.JS_FreeValue
    except (AttributeError, OSError, TypeError):
        return lambda: None
    if runtime is None:
        return lambda: None
    read.restype, read.argtypes = ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_void_p, _Value, ctypes.c_bool]
    dup.restype, dup.argtypes = _Value, [ctypes.c_void_p, _Value]
    free.restype, free.argtypes = None, [ctypes.c_void_p, _Value]
    unhandled: dict[int, tuple[int, _Value]] = {}

    def told(context: int, promise: _Value, reason: _Value, handled: bool, _opaque: int) -> None:
        # No code of the agent runs in here: the reason is kept, and read when there is nothing else left to run.
        old = unhandled.pop(promise.payload, None)
        if old is not None:
            free(*old)
        if not handled:
            unhandled[promise.payload] = (context, dup(context, reason))

    tracker = _Tracker(told)
    track.restype, track.argtypes = None, [ctypes.c_void_p, _Tracker, ctypes.c_void_p]
    track(runtime, tracker, None)

    def reason() -> str | None:
        _kept = tracker  # as long as it can be asked, it must not be freed
        for context, value in list(unhandled.values()):
            text = read(context, None, value, False)
            return "an error that cannot be shown" if text is None else str(text, errors="replace")
        return None

    return reason
