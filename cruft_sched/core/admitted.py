"""What a policy admits beside the agent: modules, and packages by their hashes."""

from __future__ import annotations

import re
from typing import Any

from cruft_sched.core.sealing import digest
from cruft_sched.core.specifiers import resolve, specifier_fault

INTEGRITIES = {"packages": "package_integrity", "import_hooks": "import_hook_integrity"}
"""Where the hashes of files stand that an agent may import."""

_IMPORTED = ("modules", *INTEGRITIES)


def admitted_faults(tree: dict[str, Any]) -> list[str]:
    """Every fault of what a policy lets the agent import that shows before a file is read. `tree` need not be valid."""
    python = str(tree.get("agent")).endswith(".py")
    places = [(specifier, f"$.{field}.{specifier}") for field in _IMPORTED for specifier in _mapping(tree, field)]
    admitted = {specifier for specifier, _ in places}
    faults = []
    first: dict[str, str] = {}
    for specifier, where in places:
        fault = specifier_fault(specifier, python=python)
        faults += [f"{where}: {fault}"] if fault is not None else []
        name = specifier if python else resolve(specifier)
        if first.setdefault(name, where) != where:
            faults.append(f"{where}: is admitted already, as {first[name]}")
        package = specifier.rpartition(".")[0] if python else ""
        if package and package not in admitted:
            faults.append(f"{where}: the package {package} that it is in is not admitted")
    entry = tree.get("entry_module")
    if isinstance(entry, str) and entry not in admitted:
        faults.append(f"$.entry_module: is not admitted: {entry!a}")
    return faults + [
        fault for field, integrity in INTEGRITIES.items() for fault in _hash_faults(tree, field, integrity)
    ]


def _hash_faults(tree: dict[str, Any], field: str, integrity: str) -> list[str]:
    """What is wrong with the hashes of some files."""
    files, hashes = _mapping(tree, field), _mapping(tree, integrity)
    faults = [f"$.{integrity}.{name}: required, and missing" for name in files if name not in hashes]
    faults += [f"$.{integrity}.{name}: there is none of that name in {field}" for name in hashes if name not in files]
    malformed = [name for name, text in hashes.items() if isinstance(text, str) and not _is_integrity(text)]
    form = "is neither blake3:<64 hex digits> nor sha256-<base64>"
    return faults + [f"$.{integrity}.{name}: {form}" for name in malformed]


def integrity_fault(data: bytes, integrity: str) -> str | None:
    """What is wrong with the bytes of a package whose integrity is well-formed, or None."""
    actual = digest(data)
    if integrity.startswith("sha256-"):
        import base64  # these here, since few packages need them, and a tick never does
        import hashlib

        actual = f"sha256-{base64.b64encode(hashlib.sha256(data).digest()).decode()}"
    return None if actual == integrity else f"has the hash {actual}, and the policy says {integrity}"


def _is_integrity(text: str) -> bool:
    return re.fullmatch(r"blake3:[0-9a-f]{64}|sha256-[A-Za-z0-9+/]{43}=", text) is not None


def _mapping(tree: dict[str, Any], name: str) -> dict[str, Any]:
    value = tree.get(name)
    return value if isinstance(value, dict) else {}
