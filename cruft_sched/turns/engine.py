"""The engine below its Python package: what the package does not offer is set on the engine itself, by ctypes.

The package keeps the pointers to its runtime and its context right behind the head of its Context object; that they are
what they seem is checked with the engine's own function before they are used.
"""

from __future__ import annotations

import ctypes

import _quickjs

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from typing import Any

_WORD = ctypes.sizeof(ctypes.c_void_p)
_HEAD_WORDS = 2
"""The head of a Python object: its count of references, and its type."""


class Value(ctypes.Structure):
    """A JavaScript value, as the engine passes it on 64-bit machines."""

    _fields_ = (("payload", ctypes.c_uint64), ("tag", ctypes.c_int64))


class Engine:
    """The engine's own functions, and the pointer to the runtime of one context."""

    def __init__(self, context: _quickjs.Context) -> None:
        """Raises AttributeError, OSError or TypeError where anything is not as expected: a build without these
        symbols, another layout."""
        self._library = ctypes.CDLL(_quickjs.__file__)  # it lets go of the interpreter: what it calls may call the host
        self.runtime = self._runtime_of(context)

    def function(self, name: str, result: Any, *arguments: Any) -> Any:
        """A function of the engine, with its C types. Raises AttributeError where there is none."""
        function = getattr(self._library, name)
        function.restype, function.argtypes = result, list(arguments)
        return function

    def _runtime_of(self, holder: _quickjs.Context) -> int:
        words = (ctypes.c_void_p * (_HEAD_WORDS + 2)).from_address(id(holder))
        _count, kind, runtime, context = words
        pointers = all(word and word > 1 << 16 and word % _WORD == 0 for word in (runtime, context))
        if ctypes.sizeof(ctypes.c_uint64) != _WORD or kind != id(type(holder)) or not pointers:
            raise TypeError("the engine's package keeps its pointers elsewhere")
        if runtime is None or self.function("JS_GetRuntime", ctypes.c_void_p, ctypes.c_void_p)(context) != runtime:
            raise TypeError("the engine's package keeps other pointers there")
        return runtime
