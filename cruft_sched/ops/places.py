"""Where an audit log and a session may lie: in a file of their own, and in no store."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from cruft_sched.errors import DataError
from cruft_sched.stores.audit_log import check_log
from cruft_sched.stores.session import lock_path
from cruft_sched.tools.authority import is_store


def check_audit_place(path: str, others: Sequence[str]) -> None:
    """Raise DataError where `path` could not be an audit log, or is one of the `others`: the policy, the agent, what a
    job is bound to, a store. It is not made."""
    _check_place(path, "the audit log", "give audit_log another path")
    check_log(path, others)


def check_session_place(path: str, audit_path: str, others: Sequence[str]) -> None:
    """Raise DataError where `path` could not be a session beside this audit log. It is not made."""
    todo = "give the session another path"
    _check_place(path, "the session", todo)
    real, log = os.path.realpath(path), os.path.realpath(audit_path)
    if log in (real, lock_path(real)):
        raise DataError(f"the session {path} is the audit log, too", "give one of them another path")
    if re.fullmatch(r"\.[1-9][0-9]*", real.removeprefix(log)):
        raise DataError(f"the session {path} is where a full audit log is kept", todo)
    if real in map(os.path.realpath, others):
        raise DataError(f"the session {path} is a file that the policy names for something else", todo)


def _check_place(path: str, what: str, todo: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise DataError(f"{what} {path!a} has a name that is not UTF-8", todo) from None
    folder = os.path.dirname(os.path.realpath(path))
    while folder != os.path.dirname(folder):
        if _is_store(folder):
            raise DataError(f"{what} {path} lies in the store {folder}", todo)
        folder = os.path.dirname(folder)


def _is_store(folder: str) -> bool:
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False  # it is still to be made, or nothing can be written below it either
    try:
        return is_store(fd)
    finally:
        os.close(fd)
