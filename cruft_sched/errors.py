"""Every expected failure: a stable code, an exit code (sysexits), and one sentence that says what to do next."""

from __future__ import annotations

import errno

MAX_SHOWN_FAULTS = 50


_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit on open files (`ulimit -n`)"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "check its permissions"),
}


def remedy(error: OSError) -> str:
    """What can be done where the system refuses something to do with a file."""
    return _REMEDIES.get(error.errno or 0, "mend the disk")


class CruftError(Exception):
    """An expected failure. `what` happened; `todo` is what the reader can do about it."""

    code = "internal_error"
    exit_code = 70

    def __init__(self, what: str, todo: str) -> None:
        super().__init__(f"{what}; {todo}")
        self.what = what
        self.todo = todo


class UsageError(CruftError):
    """The command line, or an argument of the Python API, is wrong."""

    code = "usage"
    exit_code = 64


class DataError(CruftError):
    """A file or a value handed in is wrong: policy, hash, seal, JSON, schema."""

    code = "bad_data"
    exit_code = 65


class PolicyError(DataError):
    """The policy has faults. `faults` holds them all, one line each, with their JSON paths."""

    code = "bad_policy"

    def __init__(self, path: str, faults: list[str]) -> None:
        shown = faults[:MAX_SHOWN_FAULTS]
        if len(faults) > len(shown):
            shown.append(f"and {len(faults) - len(shown)} more")
        super().__init__(f"policy {path} is refused: " + "; ".join(shown), "correct it and try again")
        self.path = path
        self.faults = faults


class SealError(DataError):
    """A record fails its seal: torn, edited, or sealed under another store's key."""

    code = "bad_seal"


class UnknownJobError(DataError):
    """The store holds no such job."""

    code = "unknown_job"


class ChangedError(DataError):
    """A bound source is not what it was when the job started."""

    code = "changed_since_start"


class ExistsError(CruftError):
    """What was to be made stands there already. It was left alone."""

    code = "exists"
    exit_code = 73


class JobExistsError(ExistsError):
    """A job of this id stands in the store already."""

    code = "job_exists"


class StorageError(CruftError):
    """The disk failed, or is full."""

    code = "storage_failed"
    exit_code = 74


class SystemFailedError(CruftError):
    """The operating system refused something that is not the disk's: a process, most often."""

    code = "system_failed"
    exit_code = 74


class UnavailableError(CruftError):
    """A turn cannot be run on this machine as the policy asks."""

    code = "unavailable"
    exit_code = 69


class RefusedError(CruftError):
    """Refused: a token that is not the wait's, a tool that is not granted. Nothing was changed."""

    code = "refused"
    exit_code = 76


class InternalError(CruftError):
    """A bug that one job brought to light. `__cause__` is the exception."""

    def __init__(self, bug: Exception) -> None:
        super().__init__(f"this is a bug ({type(bug).__name__}: {bug})", "please report it")
        self.__cause__ = bug


class OutputError(CruftError):
    """The answer could not be written to standard output. What the command did is done."""

    code = "output_failed"
    exit_code = 74


class WrongStatusError(CruftError):
    """The job's status does not admit this. Nothing was changed."""

    code = "wrong_status"
    exit_code = 75


class BusyError(CruftError):
    """Another process is working on the same record."""

    code = "busy"
    exit_code = 75
