"""What a policy names on the disk beside what the agent imports: folders, commands, recorded answers."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from blake3 import blake3

from cruft_sched.core.policy import Policy
from cruft_sched.errors import ChangedError, DataError, StorageError, remedy

MAX_EXECUTABLE_BYTES = 256 << 20
_CHUNK = 1 << 20


def path_faults(policy: Policy, folder: str) -> list[str]:
    """A fault for each path that should exist and does not, or is something else. Paths start at `folder`."""
    faults = [
        f"$.fs_read[{i}]: is no folder: {path!a}"
        for i, path in enumerate(policy.fs_read)
        if not os.path.isdir(os.path.join(folder, path))
    ]
    if policy.process_cwd is not None and not os.path.isdir(os.path.join(folder, policy.process_cwd)):
        faults.append(f"$.process_cwd: is no folder: {policy.process_cwd!a}")
    for i, command in enumerate(policy.process_commands):
        path = os.path.join(folder, command.partition("=")[2])
        if not os.path.isfile(path) or not os.access(path, os.X_OK):
            faults.append(f"$.process_commands[{i}]: is no program: {path!a}")
    return faults


def commands(policy: Policy, folder: str) -> dict[str, str]:
    """The absolute paths of the policy's commands, by name."""
    named = (command.partition("=") for command in policy.process_commands)
    return {name: os.path.abspath(os.path.join(folder, path)) for name, _, path in named}


def executables(policy: Policy, folder: str) -> Iterator[str]:
    """The absolute paths of the policy's commands, each once."""
    return iter(dict.fromkeys(commands(policy, folder).values()))


def hash_executable(path: str) -> str:
    """The hash of a program, read piece by piece: it can be large. Raises DataError, StorageError."""
    hashed = blake3()
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_EXECUTABLE_BYTES:
                raise DataError(f"program {path} is larger than 256 MiB, or no file", "name another one")
            while piece := file.read(_CHUNK):
                hashed.update(piece)
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise DataError(f"program {path} cannot be read: {error.strerror}", "check the path") from None
    except OSError as error:
        raise StorageError(f"cannot read program {path}: {error.strerror or error}", remedy(error)) from error
    return f"blake3:{hashed.hexdigest()}"


def check_executables(policy: Policy, folder: str, bound: dict[str, str], todo: str) -> None:
    """Raise ChangedError where a program is not what it was at the start. It is not copied: it runs where it lies."""
    for path in executables(policy, folder):
        try:
            found = hash_executable(path)
        except DataError as error:
            raise ChangedError(error.what, todo) from None
        if found != bound.get(path):
            raise ChangedError(f"program changed since start: {path}", todo)
