"""Make a project of a template: a policy of least authority, an agent, and what these name."""

from __future__ import annotations

import os
from contextlib import suppress

from msgspec import UNSET, Struct, UnsetType

from cruft_sched.errors import DataError, ExistsError, StorageError
from cruft_sched.stores import atomic, disk

TEMPLATES = ("blank", "human-approval", "repo-review", "ci-triage")
AGENTS = {"js": "agent.js", "python": "agent.py"}
"""A template's agent in each language. Its policy names the first one."""

POLICY = "agent-policy.json"


class Initialized(Struct, frozen=True, kw_only=True):
    """What `init` prints."""

    type: str = "agent_init"
    schema_version: int = 1
    project: str
    template: str
    language: str
    files: list[str]
    """Relative to the project, in the order in which they were made."""
    without_compartment: str | UnsetType = UNSET
    """What this machine lacks, where the policy's isolation was lowered for it."""


def init_project(folder: str, template: str, language: str, missing: str | None = None) -> Initialized:
    """Make a project in `folder`. `missing` is what the machine lacks for the compartment: then the policy asks for
    less. The policy is made last: a folder that has one has all of the project.

    Raises ExistsError where a file of it stands already, DataError where the folder cannot be had, StorageError;
    then nothing was made.
    """
    folder = os.path.abspath(folder)
    files = _files(template, language, lower=missing is not None)
    _check_free(folder, list(files))
    made: list[str] = []
    try:
        for name, data in files.items():
            atomic.make_folder(os.path.dirname(os.path.join(folder, name)))
            made.append(name)  # before: what fails in the last step, the fsync of the folder, stands
            atomic.create(os.path.join(folder, name), data)
    except OSError as error:
        _remove(folder, made[:-1] if isinstance(error, FileExistsError) else made)  # the last one is somebody else's
        if isinstance(error, FileExistsError | NotADirectoryError):
            raise DataError(f"{folder} cannot be a project: {error.strerror}", "give another folder") from None
        what = f"cannot make a project in {folder}: {error.strerror or error}"
        raise StorageError(what, "make room, or give another folder") from error
    return Initialized(
        project=folder, template=template, language=language, files=made, without_compartment=missing or UNSET
    )


def _files(template: str, language: str, *, lower: bool) -> dict[str, bytes]:
    """The files of a project, the policy last."""
    source = os.path.join(_templates(), template)
    agent = AGENTS[language]
    names = sorted(
        os.path.relpath(os.path.join(folder, name), source)
        for folder, _, found in os.walk(source)
        for name in found
        if os.path.basename(folder) != "__pycache__"  # an installer compiles the agents that are Python
    )
    kept = [name for name in names if name not in (POLICY, *AGENTS.values())]
    files = {name: _read(source, name) for name in (*kept, agent)}
    policy = _read(source, POLICY).replace(b'"agent.js"', f'"{agent}"'.encode())
    if lower:
        policy = policy.replace(b'  "audit_log"', b'  "isolation": "process",\n  "audit_log"')
    return files | {POLICY: policy}


def _read(folder: str, name: str) -> bytes:
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


def _check_free(folder: str, names: list[str]) -> None:
    there = [name for name in names if os.path.lexists(os.path.join(folder, name))]
    if there:
        raise ExistsError(f"{folder} holds {', '.join(there)} already, and was left alone", "give another folder")


def _remove(folder: str, made: list[str]) -> None:
    for name in made:
        with suppress(OSError):
            disk.unlink(os.path.join(folder, name))


def _templates() -> str:
    """The templates: in the package where it is installed, beside it in a checkout."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    places = (os.path.join(package, "policies"), os.path.join(os.path.dirname(package), "policies"))
    return next(place for place in places if os.path.isdir(place))
