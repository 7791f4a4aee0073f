"""What a Python agent can import beside the standard library: the modules that its policy admits, from memory.

Another import is refused, and told to the driver where the agent asked for it. As with all that is hidden from a Python
agent, this is tidiness and no fence.
"""

from __future__ import annotations

import sys
from _frozen_importlib import ModuleSpec, spec_from_loader

from cruft_sched.turns.python_values import to_json

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from cruft_sched.turns.host import Host

FOLDER = "modules/"
"""Where tracebacks place the modules, so that none has the name of the agent's own file."""

_MACHINERY = ("importlib", "_frozen_importlib", "_frozen_importlib_external")


class AdmittedModules:
    """Finds and loads what is admitted, after the finders of the standard library have found nothing."""

    def __init__(self, host: Host, sources: dict[str, str]) -> None:
        self._host = host
        self._sources = sources
        self._packages = {name.rpartition(".")[0] for name in sources}

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        if name in self._sources:
            loader: Any = self  # typeshed asks for load_module, which is on its way out of the language
            return spec_from_loader(name, loader, origin="the policy", is_package=name in self._packages)
        if _of_the_library(name) or _of_the_library(_importer()):
            return None  # a module that this platform lacks, or one that the library itself tries
        self._host.import_denial(to_json(_well_formed(name[:200]), "the specifier"))
        raise ModuleNotFoundError(f"No module named {name!r}: it is not admitted by the policy", name=name)

    def create_module(self, _spec: ModuleSpec) -> None:
        """None: an ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        file = f"{FOLDER}{name.replace('.', '/')}.py"
        exec(compile(self.get_source(name), file, "exec", dont_inherit=True), module.__dict__)  # noqa: S102

    def get_source(self, name: str) -> str:
        """What tracebacks quote from."""
        return self._sources[name].removeprefix("\ufeff")


def import_value(specifier: object, name: object) -> Any:
    """One name of a module."""
    if not isinstance(specifier, str) or not isinstance(name, str) or not specifier:
        raise TypeError("importValue: the specifier and the name are strs")
    __import__(specifier)
    try:
        return getattr(sys.modules[specifier], name)
    except AttributeError:
        raise TypeError(f"importValue: {specifier} has no name {name}") from None


def _of_the_library(name: str) -> bool:
    return name.partition(".")[0] in sys.stdlib_module_names


def _importer() -> str:
    """The name of the module whose code is importing; empty where it has none."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if not isinstance(name, str):
            return ""
        if name.partition(".")[0] not in _MACHINERY:
            return name
        frame = frame.f_back  # type: ignore[assignment]  # None at the end
    return ""


def _well_formed(text: str) -> str:
    return text.encode(errors="replace").decode()
