"""Short texts that people give, and that are kept."""

from __future__ import annotations

from cruft_sched.errors import UsageError

MAX_LENGTH = 1000


def checked(text: str, what: str) -> str:
    """Return `text` if it can be kept, else raise UsageError naming `what`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} is not UTF-8", "write it in UTF-8") from None
    if not 0 < len(text) <= MAX_LENGTH:
        raise UsageError(f"{what} has {len(text)} characters", f"give 1 to {MAX_LENGTH}")
    return text
