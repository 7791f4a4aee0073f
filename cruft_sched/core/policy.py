"""`agent-policy.json`: which agent, with which authority, within which budgets.

Strict: an unknown field, a key given twice, a wrong type are all reported at once, each with its JSON path.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct

MAX_POLICY_BYTES = 1 << 20
RESERVED_CONTEXT_KEY = "scheduler_resume"
"""The key of the context that only the engine sets: an agent branches on it."""

KNOWN_TOOLS = frozenset(
    (
        *("echo", "fail", "slow", "listFiles", "readFile", "writeArtifact", "process", "model.call"),
        *("osv.query", "npm.metadata", "github.issue.read", "github.pr.read", "github.pr.files.list"),
        *("github.release.latest.read", "github.file.read", "github.compare.read", "github.commit.read"),
        *("github.repo.read", "github.workflow.run.read", "github.workflow.jobs.list", "github.check.runs.list"),
    )
)
"""The names a policy may list: the public catalogue. Which of them can be called durably is another question."""

Text = Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"\A[^\0]*\Z")]
Milliseconds = Annotated[int, Meta(ge=1, le=86_400_000)]


class Budgets(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one turn, one tool call, and (the last two) one job may use."""

    timeout_ms: Milliseconds = 30_000
    max_steps: Annotated[int, Meta(ge=1, le=1 << 53)] | None = None
    max_microtasks: Annotated[int, Meta(ge=1, le=1 << 53)] = 100_000
    max_rss_mb: Annotated[int, Meta(ge=16, le=65_536)] = 256
    max_events: Annotated[int, Meta(ge=0, le=1_000_000)] = 1_000
    max_event_bytes: Annotated[int, Meta(ge=2, le=16 << 20)] = 64 << 10
    max_state_bytes: Annotated[int, Meta(ge=2, le=16 << 20)] = 256 << 10
    max_tool_arg_bytes: Annotated[int, Meta(ge=2, le=16 << 20)] = 256 << 10
    max_tool_result_bytes: Annotated[int, Meta(ge=2, le=16 << 20)] = 1 << 20
    tool_timeout_ms: Milliseconds = 30_000
    max_scheduler_turns: Annotated[int, Meta(ge=1, le=1 << 53)] | None = None
    max_age_ms: Annotated[int, Meta(ge=1, le=1 << 53)] | None = None


Isolation = Literal["strict", "process"]
"""How a turn's process is confined: by the whole compartment, or by being a process with limits, and no more."""


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields that this version understands; any other is refused."""

    schema_version: Literal[1] = 1
    agent: Text
    audit_log: Text
    isolation: Isolation = "strict"
    run_id: Text | None = None
    session_file: Text | None = None
    profile: Text | None = None
    context: dict[str, Raw] = {}
    state: dict[str, Raw] = {}
    tools: list[Text] = []
    modules: dict[str, Text] = {}
    packages: dict[str, Text] = {}
    package_integrity: dict[str, Text] = {}
    expected_events: dict[str, Text] | None = None
    budgets: Budgets = Budgets()


def decode_policy(data: bytes) -> Policy:
    """The policy in bytes whose hash says that they were checked before."""
    return msgspec.json.decode(data, type=Policy)
