"""What a JavaScript agent can import: the modules that its policy admits, from memory, and nothing else.

The engine asks for a module through callbacks that its Python package does not offer, so they are set on the engine
itself (see engine.py), before the child is confined: afterwards, no file can be read, and no callback made.
"""

from __future__ import annotations

import ctypes
from _json import encode_basestring_ascii

from cruft_sched.core.specifiers import resolve
from cruft_sched.turns.engine import Engine, Value

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Mapping

    import _quickjs

    from cruft_sched.turns.host import Host

_MODULE, _COMPILE_ONLY = 1 << 0, 1 << 5
"""Of JS_Eval's flags."""
_TAG_MODULE = -3
_POINTER, _TEXT = ctypes.c_void_p, ctypes.c_char_p

_Normalize = ctypes.CFUNCTYPE(_POINTER, _POINTER, _TEXT, _TEXT, _POINTER)
_Load = ctypes.CFUNCTYPE(_POINTER, _POINTER, _TEXT, _POINTER, Value)
_Check = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, _POINTER, Value)


class ModuleLoader:
    """Answers the engine. It must live as long as the engine does."""

    def __init__(self, context: _quickjs.Context, host: Host, sources: Mapping[str, str]) -> None:
        """Raises AttributeError, OSError or TypeError where the engine cannot be reached."""
        self._host = host
        self._sources = {resolve(specifier): source.encode() for specifier, source in sources.items()}
        self._loading: list[str] = []
        self._depth = 0
        self._broken: set[str] = set()
        engine = Engine(context)
        self._copy = engine.function("js_strdup", _POINTER, _POINTER, _TEXT)
        self._throw = engine.function("JS_ThrowPlainError", Value, _POINTER, _TEXT)
        self._compile = engine.function("JS_Eval", Value, _POINTER, _TEXT, ctypes.c_size_t, _TEXT, ctypes.c_int)
        self._free = engine.function("JS_FreeValue", None, _POINTER, Value)
        self._callbacks = (_Normalize(self._normalize), _Load(self._load), _Check(self._check))
        set_loader = engine.function("JS_SetModuleLoaderFunc2", None, _POINTER, _Normalize, _Load, _Check, _POINTER)
        set_loader(engine.runtime, *self._callbacks, None)

    def _normalize(self, context: int, importer: bytes, specifier: bytes, _opaque: int) -> int | None:
        """The name of the module that is asked for, in the engine's own memory; or None, and an error is thrown."""
        try:
            asked = str(specifier, errors="replace")
            name = resolve(asked, str(importer, errors="replace"))
            if name not in self._sources:
                self._host.import_denial(encode_basestring_ascii(asked[:200]))
                refusal = f'the import of "{asked[:100]}" is not admitted by the policy'
            elif name in self._broken:
                refusal = f'the module "{name[:100]}" could not be loaded before'
            else:
                copied: int | None = self._copy(context, name.encode())
                return copied
        except Exception as error:  # an exception cannot pass through the engine, which would go on with no module
            refusal = f"the import failed: {type(error).__name__}"
        self._refuse(context, refusal)
        return None

    def _load(self, context: int, name: bytes, _opaque: int, _attributes: Value) -> int | None:
        """The compiled module, or None, and an error is thrown. It loads what the module imports, by coming here.

        When a module fails, the engine frees it, and keeps those that were loaded with it and may point to it (in a
        circle). So none of that load is ever handed out again.
        """
        self._depth += 1
        try:
            self._loading.append(name.decode())
            source = self._sources[self._loading[-1]]
            module: Value = self._compile(context, source, len(source), name, _MODULE | _COMPILE_ONLY)
            loaded = module.tag == _TAG_MODULE
        except Exception as error:
            loaded = False
            self._refuse(context, f"the import failed: {type(error).__name__}")
        self._depth -= 1
        if not loaded:
            self._broken.update(self._loading)
        if self._depth == 0:
            self._loading.clear()
        if not loaded:
            return None
        self._free(context, module)  # the engine's list of modules holds it, too
        return int(module.payload)

    def _check(self, context: int, _opaque: int, _attributes: Value) -> int:
        """Refuse `with { … }`: under other attributes, the engine would load the same module once more."""
        self._refuse(context, "the attributes of an import are not known here")
        return -1

    def _refuse(self, context: int, message: str) -> None:
        # The message is a format. It takes no arguments, which ctypes could not pass everywhere.
        self._throw(context, message.replace("%", "%%").encode())
