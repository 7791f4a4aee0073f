"""A session: the state that a plain run keeps for the next one, in a file of its own."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from cruft_sched.core.depth import MAX_DEPTH
from cruft_sched.core.manifest import AuditHead
from cruft_sched.core.strict_json import duplicate_keys, parse_json
from cruft_sched.errors import CruftError, DataError, StorageError, remedy
from cruft_sched.stores import atomic, locks

MAX_SESSION_BYTES = 32 << 20


class Session(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the file holds: the state, and where the audit log stood when it was written."""

    type: Literal["cruft_agent_session"] = "cruft_agent_session"
    schema_version: Literal[1] = 1
    state: dict[str, Raw]
    audit: AuditHead


class SessionFile:
    """A session file whose lock is held."""

    def __init__(self, path: str) -> None:
        self.path = path

    def load(self) -> Session | None:
        """The session; None before the first one. Raises DataError where the file is something else."""
        try:
            return _decode(atomic.read_file(self.path, MAX_SESSION_BYTES))
        except FileNotFoundError:
            return None
        except (ValueError, msgspec.DecodeError, DataError) as error:
            said = error.what if isinstance(error, DataError) else error
            what = f"{self.path} exists and is no session ({said}); it was left alone"
            raise DataError(what, "give the session another path") from None
        except OSError as error:
            raise _fault(self.path, error) from error

    def save(self, session: Session) -> None:
        """Write the session in one durable step. Raises StorageError, and the old one stands."""
        try:
            atomic.replace(self.path, msgspec.json.encode(session) + b"\n")
        except OSError as error:
            raise _fault(self.path, error) from error


def _decode(data: bytes) -> Session:
    tree = parse_json(data, MAX_SESSION_BYTES, MAX_DEPTH + 2)  # the object, and the state in it
    twice = duplicate_keys(tree, "$")
    if twice:
        raise ValueError(twice[0])
    return msgspec.json.decode(data, type=Session)


def _fault(path: str, error: OSError) -> CruftError:
    if error.errno in _NO_PLACE:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror or error
        return DataError(f"there can be no session at {path}: {why}", "give it another path")
    return StorageError(f"cannot keep session {path}: {error.strerror or error}", f"{remedy(error)}, and run it again")


_NO_PLACE = frozenset(
    (
        errno.EEXIST,
        errno.ELOOP,
        errno.EISDIR,
        errno.ENOTDIR,
        errno.ENXIO,
        errno.ENAMETOOLONG,
        errno.EACCES,
        errno.ENOENT,
    )
)


def lock_path(path: str) -> str:
    """The lock of a session, which lies beside it."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.lock")


@contextmanager
def hold_session(path: str) -> Iterator[SessionFile]:
    """Hold the lock of a session, which lies beside it. Raises BusyError where another run has it, DataError where
    there can be no such file."""
    with ExitStack() as stack:
        try:
            folder, name = os.path.split(path)
            atomic.make_folder(folder)
            stack.enter_context(locks.hold(lock_path(path), f"another run is using session {path}"))
            atomic.sweep(folder, of=name)
        except OSError as error:
            raise _fault(path, error) from error
        yield SessionFile(path)
