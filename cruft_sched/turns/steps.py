"""A count of the steps of a JavaScript agent, kept by the engine's own interrupt."""

from __future__ import annotations

import ctypes
import os

from cruft_sched.turns.engine import Engine

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable

    import _quickjs

STEPS_AT_ONCE = 10_000
"""The engine looks up once in so many branches and calls."""

_Handler = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def count_steps(context: _quickjs.Context, limit: int, over: Callable[[int], object]) -> object:
    """Have `over` called, with their number, when the engine has made more than `limit` steps. It must not return.
    What this returns is to be kept as long as the engine. Raises OSError where they cannot be counted."""
    pointer = ctypes.c_void_p
    try:
        engine = Engine(context)
        interrupt = engine.function("JS_SetInterruptHandler", None, pointer, _Handler, pointer)
    except (AttributeError, OSError, TypeError) as error:
        raise OSError(f"max_steps cannot be kept with this build of the engine ({error})") from None
    steps = 0

    def looked_up(_runtime: int, _opaque: int) -> int:
        nonlocal steps
        try:
            steps += STEPS_AT_ONCE
            if steps > limit:
                over(steps)
        except BaseException:
            os._exit(1)  # the engine would go on, uncounted
        return 0

    handler = _Handler(looked_up)
    interrupt(engine.runtime, handler, None)
    return handler
