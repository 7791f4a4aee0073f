"""The JavaScript engine below its Python package: its runtime, and a count of its steps.

The package keeps the two pointers that this takes right behind the head of its Context object; that they are what they
seem is checked with the engine's own function before they are used.
"""

from __future__ import annotations

import ctypes
import os

import _quickjs

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable

STEPS_AT_ONCE = 10_000
"""The engine looks up once in so many branches and calls."""

_WORD = ctypes.sizeof(ctypes.c_void_p)
_HEAD_WORDS = 2
"""The head of a Python object: its count of references, and its type."""

_Handler = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def runtime_of(engine: _quickjs.Context, library: ctypes.CDLL) -> int | None:
    """The engine's runtime, if it can be told for sure."""
    words = (ctypes.c_void_p * (_HEAD_WORDS + 2)).from_address(id(engine))
    _count, kind, runtime, context = words
    pointers = all(word and word > 1 << 16 and word % _WORD == 0 for word in (runtime, context))
    if ctypes.sizeof(ctypes.c_uint64) != _WORD or kind != id(type(engine)) or not pointers:
        return None
    library.JS_GetRuntime.restype, library.JS_GetRuntime.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    return runtime if library.JS_GetRuntime(context) == runtime else None


def count_steps(engine: _quickjs.Context, limit: int, over: Callable[[int], object]) -> object:
    """Have `over` called, with their number, when the engine has made more than `limit` steps. It must not return.
    What this returns is to be kept as long as the engine. Raises OSError where they cannot be counted."""
    try:
        library = ctypes.CDLL(_quickjs.__file__)
        runtime = runtime_of(engine, library)
        interrupt = library.JS_SetInterruptHandler
    except (AttributeError, TypeError) as error:
        raise OSError(f"max_steps cannot be kept with this build of the engine ({error})") from None
    if runtime is None:
        raise OSError("max_steps cannot be kept with this build of the engine")
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
    interrupt.restype, interrupt.argtypes = None, [ctypes.c_void_p, _Handler, ctypes.c_void_p]
    interrupt(runtime, handler, None)
    return handler
