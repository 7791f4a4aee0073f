"""What to do with an exception that nobody expected."""

from __future__ import annotations

import os
import tempfile
import traceback
from datetime import UTC, datetime


def report(error: Exception) -> str:
    """Write the traceback into a log file, and return the one line that says where."""
    text = "".join(traceback.format_exception(error))
    path = _write(f"{datetime.now(UTC).isoformat()}\n{text}\n")
    what = f"{type(error).__name__} in {_place(error)}"
    if path is None:
        return f"this is a bug ({what}); its traceback could not be written anywhere, please report it"
    return f"this is a bug ({what}); please report it with the traceback in {path}"


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "an unknown place"


def _write(text: str) -> str | None:
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    for folder in (os.path.join(state, "cruft-sched"), tempfile.gettempdir()):
        path = os.path.join(folder, f"cruft-bug-{os.getpid()}-{os.urandom(4).hex()}.log")
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError:
            continue
        return path
    return None
