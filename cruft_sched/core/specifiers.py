"""The names under which an agent imports what its policy admits.

The child reads this file too, so it imports nothing that is slow.
"""

from __future__ import annotations

import sys

MAX_LENGTH = 200


def resolve(specifier: str, importer: str = "") -> str:
    """The name that a JavaScript specifier stands for in the module `importer`; two that name one module resolve alike.

    `./` and `../` start at the importer's folder; anything else is a name already.
    """
    if not specifier.startswith(("./", "../")):
        return specifier
    parts = [part for part in importer.split("/")[:-1] if part != "."]
    for part in specifier.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def specifier_fault(specifier: str, *, python: bool) -> str | None:
    """What is wrong with a specifier of a policy, or None."""
    if not 0 < len(specifier) <= MAX_LENGTH:
        return f"a specifier has 1 to {MAX_LENGTH} characters"
    return _python_fault(specifier) if python else _javascript_fault(specifier)


def _javascript_fault(specifier: str) -> str | None:
    parts = resolve(specifier).split("/")
    while parts[0] == ".." and len(parts) > 1:
        del parts[0]
    plain = all(part not in ("", ".", "..") and part.isprintable() for part in parts)
    if not plain or any(char in " \"'`\\:?#<>" for char in specifier):
        return 'is no specifier of a module, as "util", "./util.js" or "@scope/pkg" are'
    return None


def _python_fault(specifier: str) -> str | None:
    from keyword import iskeyword  # here: the child has no use for it
    from unicodedata import normalize

    parts = specifier.split(".")
    if not all(part.isidentifier() and not iskeyword(part) for part in parts):
        return "is no name of a module, as `helper` or `pkg.helper` are"
    if normalize("NFKC", specifier) != specifier:
        return f"is read as `{normalize('NFKC', specifier)}` by Python: give it that name"
    # `test` is the one that the list leaves out.
    if specifier.partition(".")[0] in (*sys.stdlib_module_names, "test", "__main__"):
        return "is a module of the standard library, which comes first"
    return None
