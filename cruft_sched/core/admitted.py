"""What a policy admits beside the agent: modules, and packages by their hashes."""

from __future__ import annotations

import re
from typing import Any

from cruft_sched.core.sealing import digest
from cruft_sched.core.specifiers import resolve, specifier_fault


def admitted_faults(tree: dict[str, Any]) -> list[str]:
    """Every fault of a policy's modules and packages that shows before a file is read. `tree` need not be valid."""
    python = str(tree.get("agent")).endswith(".py")
    modules, packages, integrity = (_mapping(tree, name) for name in ("modules", "packages", "package_integrity"))
    places = [(specifier, f"$.modules.{specifier}") for specifier in modules]
    places += [(specifier, f"$.packages.{specifier}") for specifier in packages]
    faults = []
    first: dict[str, str] = {}
    for specifier, where in places:
        fault = specifier_fault(specifier, python=python)
        faults += [f"{where}: {fault}"] if fault is not None else []
        name = specifier if python else resolve(specifier)
        if first.setdefault(name, where) != where:
            faults.append(f"{where}: is admitted already, as {first[name]}")
        package = specifier.rpartition(".")[0] if python else ""
        if package and package not in modules and package not in packages:
            faults.append(f"{where}: the package {package} that it is in is not admitted")
    faults += [f"$.package_integrity.{name}: required, and missing" for name in packages if name not in integrity]
    faults += [f"$.package_integrity.{name}: there is no such package" for name in integrity if name not in packages]
    malformed = [name for name, text in integrity.items() if isinstance(text, str) and not _is_integrity(text)]
    form = "is neither blake3:<64 hex digits> nor sha256-<base64>"
    return faults + [f"$.package_integrity.{name}: {form}" for name in malformed]


def integrity_fault(data: bytes, integrity: str) -> str | None:
    """What is wrong with the bytes of a package whose integrity is well-formed, or None."""
    actual = digest(data)
    if integrity.startswith("sha256-"):
        import base64  # these here, since few packages need them, and a tick never does
        import hashlib

        actual = f"sha256-{base64.b64encode(hashlib.sha256(data).digest()).decode()}"
    return None if actual == integrity else f"has the hash {actual}, and package_integrity says {integrity}"


def _is_integrity(text: str) -> bool:
    return re.fullmatch(r"blake3:[0-9a-f]{64}|sha256-[A-Za-z0-9+/]{43}=", text) is not None


def _mapping(tree: dict[str, Any], name: str) -> dict[str, Any]:
    value = tree.get(name)
    return value if isinstance(value, dict) else {}
