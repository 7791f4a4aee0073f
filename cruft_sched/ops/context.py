"""The context that a command line gives, over the policy's."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from cruft_sched.core.policy import RESERVED_CONTEXT_KEY
from cruft_sched.core.strict_json import duplicate_keys, parse_object
from cruft_sched.errors import DataError

MAX_CONTEXT_BYTES = 1 << 20


def parse_context(context: bytes | None) -> dict[str, Raw]:
    """A `--context`: a JSON object, by the same rules as the policy's. Raises DataError."""
    if context is None:
        return {}
    try:
        tree = parse_object(context, MAX_CONTEXT_BYTES)
    except DataError as error:
        raise DataError(f"--context is refused: {error.what}", error.todo) from None
    faults = duplicate_keys(tree, "$")
    if RESERVED_CONTEXT_KEY in tree:
        faults.append(f"$.{RESERVED_CONTEXT_KEY}: is set by the engine alone")
    if faults:
        raise DataError("--context is refused: " + "; ".join(faults), "correct it and try again")
    return msgspec.json.decode(context, type=dict[str, Raw])
