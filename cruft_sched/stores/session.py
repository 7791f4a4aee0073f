"""A session: the state that a plain run keeps for the next one, in a file of its own."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from cruft_sched.core.depth import MAX_DEPTH, too_deep
from cruft_sched.core.manifest import AuditHead
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
        except (ValueError, msgspec.DecodeError) as error:
            what = f"{self.path} exists and is no session ({error}); it was left alone"
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
    if too_deep(data, MAX_DEPTH + 2):  # the object, and the state in it
        raise ValueError(f"its state is nested more than {MAX_DEPTH} deep")
    return msgspec.json.decode(data, type=Session)


def _fault(path: str, error: OSError) -> CruftError:
    if error.errno in _NO_PLACE:
        return DataError(f"there can be no session at {path}: {error.strerror or error}", "give it another path")
    return StorageError(f"cannot keep session {path}: {error.strerror or error}", f"{remedy(error)}, and run it again")


_NO_PLACE = frozenset(
    (errno.EEXIST, errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.ENXIO, errno.ENAMETOOLONG, errno.EACCES)
)


@contextmanager
def hold_session(path: str) -> Iterator[SessionFile]:
    """Hold the lock of a session, which lies beside it. Raises BusyError where another run has it, DataError where
    there can be no such file."""
    folder, name = os.path.split(path)
    with ExitStack() as stack:
        try:
            atomic.make_folder(folder)
            lock = os.path.join(folder, f".{name}.lock")
            stack.enter_context(locks.hold(lock, f"another run is using session {path}"))
        except OSError as error:
            raise _fault(path, error) from error
        yield SessionFile(path)
