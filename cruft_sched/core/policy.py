"""`agent-policy.json`: which agent, with which authority, within which budgets.

Strict: an unknown field, a key given twice, a wrong type are all reported at once, each with its JSON path.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

MAX_POLICY_BYTES = 1 << 20
RESERVED_CONTEXT_KEY = "scheduler_resume"
"""The key of the context that only the engine sets: an agent branches on it."""

KNOWN_TOOLS = frozenset(
    (
        *("echo", "fail", "slow", "listFiles", "readFile", "readResult", "writeArtifact", "process"),
        "model.call",
        *("osv.query", "npm.metadata", "github.issue.read", "github.pr.read", "github.pr.files.list"),
        *("github.release.latest.read", "github.file.read", "github.compare.read", "github.commit.read"),
        *("github.repo.read", "github.workflow.run.read", "github.workflow.jobs.list", "github.check.runs.list"),
    )
)
"""The names a policy may list: the public catalogue. Which of them can be called durably is another question."""

Text = Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"^[^\x00]*$")]
_END = r"(?![\s\S])"
"""The end of a text, in every dialect of regular expressions: `$` also stands before a last newline in Python's."""
Variable = Annotated[str, Meta(max_length=200, pattern=r"^[A-Za-z_][A-Za-z0-9_]*" + _END)]
"""The name of an environment variable."""
Assignment = Annotated[str, Meta(max_length=4096, pattern=r"^[A-Za-z_][A-Za-z0-9_]*=[^\x00]*$")]
Command = Annotated[str, Meta(max_length=4096, pattern=r"^[A-Za-z0-9_.-]+=[^\x00]+$")]
ToolSecret = Annotated[str, Meta(max_length=400, pattern=r"^[A-Za-z][A-Za-z0-9._-]*:[A-Za-z_][A-Za-z0-9_]*" + _END)]
RunId = Annotated[str, Meta(pattern=r"^(?!\.{1,2}" + _END + r")[A-Za-z0-9._:-]{1,128}" + _END)]
"""The same form as a job's id, see ids.py."""
Count = Annotated[int, Meta(ge=1, le=1 << 53)]
Milliseconds = Annotated[int, Meta(ge=1, le=86_400_000)]


class Budgets(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one turn, one tool call, and (the last two) one job may use."""

    timeout_ms: Milliseconds = 30_000
    max_steps: Count | None = None
    max_microtasks: Count = 100_000
    max_rss_mb: Annotated[int, Meta(ge=16, le=65_536)] = 256
    max_events: Annotated[int, Meta(ge=0, le=1_000_000)] = 1_000
    max_event_bytes: Annotated[int, Meta(ge=2, le=16 << 20)] = 64 << 10
    max_state_bytes: Annotated[int, Meta(ge=2, le=16 << 20)] = 256 << 10
    max_tool_arg_bytes: Annotated[int, Meta(ge=2, le=16 << 20)] = 256 << 10
    max_tool_result_bytes: Annotated[int, Meta(ge=2, le=16 << 20)] = 1 << 20
    tool_timeout_ms: Milliseconds = 30_000
    process_output_stream_chunk_bytes: Annotated[int, Meta(ge=1, le=16 << 20)] = 64 << 10
    max_scheduler_turns: Count | None = None
    max_age_ms: Count | None = None


Isolation = Literal["strict", "process"]
"""How a turn's process is confined: by the whole compartment, or by being a process with limits, and no more."""


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields that this version understands; any other is refused. Their meanings are in policy_text.py."""

    schema_version: Literal[1] = 1
    agent: Text
    audit_log: Text
    audit_log_max_bytes: Annotated[int, Meta(ge=65536)] | None = 64 << 20
    redact_fields: list[Text] = []
    isolation: Isolation = "strict"
    run_id: RunId | None = None
    session_file: Text | None = None
    profile: Text | None = None
    context: dict[str, Raw] = {}
    state: dict[str, Raw] = {}
    tools: list[Text] = []
    modules: dict[str, Text] = {}
    packages: dict[str, Text] = {}
    package_integrity: dict[str, Text] = {}
    import_hooks: dict[str, Text] = {}
    import_hook_integrity: dict[str, Text] = {}
    entry_module: Text | None = None
    expected_events: dict[str, Text] | None = None
    approval_required_tools: list[Text] = []
    approved_tools: list[Text] = []
    approval_log: Text | None = None
    approval_max_age_ms: Count | None = None
    fs_read: list[Text] = []
    fs_read_include: list[Text] = []
    fs_read_exclude: list[Text] = []
    fs_write: list[Text] = []
    process_commands: list[Command] = []
    process_args: dict[str, list[Text]] = {}
    process_cwd: Text | None = None
    process_env: list[Assignment] = []
    secrets: list[ToolSecret] = []
    github_token_env: Variable | None = None
    model_provider: Text | None = None
    model_api_key_env: Variable | None = None
    osv_fixture: Text | None = None
    model_fixture: Text | None = None
    named_network_cache_dir: Text | None = None
    named_network_cache_mode: Literal["read-through", "offline"] = "read-through"
    named_network_cache_max_age_ms: Count | None = None
    named_network_cache_max_entries: Count | None = None
    named_network_retry_attempts: Annotated[int, Meta(ge=0, le=3)] = 0
    worker: bool | dict[str, Any] | None = None
    budgets: Budgets = Budgets()


def decode_policy(data: bytes) -> Policy:
    """The policy in bytes whose hash says that they were checked before."""
    return msgspec.json.decode(data, type=Policy)
