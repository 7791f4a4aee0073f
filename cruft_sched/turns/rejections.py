"""Promises that were rejected and that nobody handled.

`async function main() { … } main();` is how many agents are written, and an error in it would vanish: the engine tells
of it only through a callback that its Python package does not offer. So the callback is set on the engine itself.
Where that cannot be done (see engine.py), nothing is watched, and the agent runs as it would have without this.
"""

from __future__ import annotations

import ctypes

from cruft_sched.turns.engine import Engine, Value

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable

    import _quickjs

_Tracker = ctypes.CFUNCTYPE(None, ctypes.c_void_p, Value, Value, ctypes.c_bool, ctypes.c_void_p)


def watch(context: _quickjs.Context) -> Callable[[], str | None]:
    """Watch an engine. What is returned tells the reason of a rejection that nobody has handled so far, or None."""
    pointer = ctypes.c_void_p
    try:
        engine = Engine(context)
        track = engine.function("JS_SetHostPromiseRejectionTracker", None, pointer, _Tracker, pointer)
        dup = engine.function("JS_DupValue", Value, pointer, Value)
        read = engine.function("JS_ToCStringLen2", ctypes.c_char_p, pointer, pointer, Value, ctypes.c_bool)
        free = engine.function("JS_FreeValue", None, pointer, Value)
    except (AttributeError, OSError, TypeError):
        return lambda: None
    unhandled: dict[int, tuple[int, Value]] = {}

    def told(context: int, promise: Value, reason: Value, handled: bool, _opaque: int) -> None:
        # No code of the agent runs in here: the reason is kept, and read when there is nothing else left to run.
        old = unhandled.pop(promise.payload, None)
        if old is not None:
            free(*old)
        if not handled:
            unhandled[promise.payload] = (context, dup(context, reason))

    tracker = _Tracker(told)
    track(engine.runtime, tracker, None)

    def reason() -> str | None:
        _kept = tracker  # as long as it can be asked, it must not be freed
        for context, value in list(unhandled.values()):
            text = read(context, None, value, False)
            return "an error that cannot be shown" if text is None else str(text, errors="replace")
        return None

    return reason
