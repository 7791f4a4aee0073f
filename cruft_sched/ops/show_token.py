"""Show the token of an input: to whoever can read the store's key, and nobody else."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec
from msgspec import Raw, Struct

from cruft_sched.core.answers import answer_fault
from cruft_sched.core.manifest import Manifest
from cruft_sched.errors import WrongStatusError
from cruft_sched.ops.asked import token_of
from cruft_sched.stores.file import FileStore


class TokenReport(Struct, frozen=True, kw_only=True):
    """The token of a job's input, what it is about, and the command that gives it."""

    type: str = "agent_scheduler_token"
    schema_version: int = 1
    job_id: str
    status: str
    await_id: str
    kind: str
    payload: Raw
    token: str
    command: str


def show_token(store: FileStore, job_id: str) -> TokenReport:
    """The token of the input that a job waits for. Raises WrongStatusError where it waits for none."""
    manifest = store.load(job_id)
    report = pending_token(store, manifest)
    if report is None:
        raise WrongStatusError(
            f"job {job_id} is {manifest.status}, and waits for no answer", "see `cruft agent schedule status`"
        )
    return report


def pending_token(store: FileStore, manifest: Manifest) -> TokenReport | None:
    """The same of a manifest at hand, or None where it waits for no answer."""
    wait = manifest.question
    if wait is None:
        return None
    token = token_of(wait, manifest.uid, store.store_key())
    schema = msgspec.json.decode(wait.payload.schema)
    sample = _sample(schema)
    answer = "JSON" if answer_fault(sample, schema) else msgspec.json.encode(sample).decode()
    words = ["cruft", "agent", "schedule", "input", manifest.job_id, "--store", store.root, "--token", token, "--json"]
    return TokenReport(
        job_id=manifest.job_id,
        status=manifest.status,
        await_id=wait.id,
        kind=wait.payload.kind,
        payload=wait.payload.payload,
        token=token,
        command=shlex.join([*words, answer]),
    )


def _sample(schema: Any) -> Any:
    """An answer to begin with, by the schema: its default, its first choice, an empty value of its type."""
    if not isinstance(schema, dict):
        return {"approved": True}
    for keyword in ("default", "const"):
        if keyword in schema:
            return schema[keyword]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if kind == "object":
        properties = schema.get("properties", {})
        names = dict.fromkeys((*properties, *schema.get("required", ())))
        return {name: _sample(inner) if isinstance(inner := properties.get(name), dict) else True for name in names}
    empty = {"string": "", "boolean": True, "null": None, "array": []}
    return empty.get(kind if isinstance(kind, str) else kind[0], schema.get("minimum", 0))
