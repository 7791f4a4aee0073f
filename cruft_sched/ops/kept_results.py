"""Results that are too large for a manifest, or came too late: objects of the store, by their hashes."""

from __future__ import annotations

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from cruft_sched.core.awaits import WaitError
from cruft_sched.core.manifest import Manifest
from cruft_sched.core.redaction import Redactor
from cruft_sched.stores.file import FileStore
from cruft_sched.tools.perform import Performed
from cruft_sched.tools.tool import Outcome

MAX_KEPT_BYTES = 16 << 20
MAX_KEPT = 64
"""So many results of a job can be paged through: the newest ones."""

_PREVIEW_CHARS = 200


def kept(
    store: FileStore, manifest: Manifest, tool: str, outcome: Outcome, max_bytes: int, redactor: Redactor
) -> tuple[Manifest, Outcome]:
    """The outcome as it goes into the manifest: one that is larger than `max_bytes` is kept beside it, masked, and
    told by its hash, its size, and its beginning. Raises StorageError."""
    if isinstance(outcome, WaitError) or len(bytes(outcome)) <= max_bytes:
        return manifest, outcome
    size = len(bytes(outcome))
    if size > MAX_KEPT_BYTES:
        what = f"the result of {tool} is {size} bytes, and no more than {MAX_KEPT_BYTES} can be kept"
        return manifest, WaitError(message=what, disposition="error", tool=tool)
    data = bytes(redactor.value(outcome))
    name = store.put_object(data)
    told = {
        "kept": name,
        "bytes": len(data),
        "preview": data[: 4 * _PREVIEW_CHARS].decode(errors="ignore")[:_PREVIEW_CHARS],
    }
    results = {key: value for key, value in manifest.kept_results.items() if key != name}
    newest = dict([*results.items(), (name, len(data))][-MAX_KEPT:])
    return replace(manifest, kept_results=newest), Raw(msgspec.json.encode(told))


def keep_late(store: FileStore, manifest: Manifest, done: Performed, redactor: Redactor) -> tuple[Manifest, Outcome]:
    """Record a result that came too late: it is kept, and the error that stands in its place names it."""
    if done.late is None or not isinstance(done.outcome, WaitError) or len(bytes(done.late)) > MAX_KEPT_BYTES:
        return manifest, done.outcome
    name = store.put_object(bytes(redactor.value(done.late)))
    return manifest, replace(done.outcome, late_result=name)
