"""What each field and each budget of a policy means, for the JSON Schema and for the docs. A tick never reads it."""

from __future__ import annotations

FIELDS = {
    "schema_version": "1",
    "agent": "the agent's source, `.js`, `.mjs` or `.py`, UTF-8, not empty, at most 8 MiB",
    "audit_log": "a JSON Lines file that is appended to; a link, a file that is no audit log, the policy, the "
    "agent, what a job is bound to, and all of a store are refused",
    "audit_log_max_bytes": "a log larger than that when a run begins is renamed, and a new one begun",
    "redact_fields": "keys whose values are masked in the audit log, in results, errors and timelines, and in the "
    "whole manifest of a job that is over",
    "isolation": "`strict`: the whole [compartment](compartment.md), or exit 69; `process`: a process with limits and "
    "no more",
    "run_id": "the id of a [`cruft agent run`](run.md)",
    "session_file": "where a [`cruft agent run`](run.md) keeps its state between runs",
    "profile": "a name for people",
    "context": "what the agent is told; `scheduler_resume` is the engine's own",
    "state": "what its state starts as",
    "tools": "the tools the agent may call: names of the catalogue, each once",
    "modules": "specifiers and files: what the agent may import, in its own language, like the agent up to 8 MiB each",
    "packages": "the same, for files whose hashes are in `package_integrity`",
    "package_integrity": "for each package the hash of its file: `blake3:<64 hex>`, or `sha256-<base64>` as in SRI",
    "import_hooks": "the same as `packages`, for files whose hashes are in `import_hook_integrity`",
    "import_hook_integrity": "for each import hook the hash of its file",
    "entry_module": "the specifier of one of these, which is imported before the agent's own first line",
    "expected_events": "event kinds and files: an event whose `kind` is none of them, or that does not hold to the "
    "JSON Schema in the file, fails the turn",
    "approval_required_tools": "tools that a person must [allow](tools.md#leave-for-a-call), each time a job "
    "calls one durably",
    "approved_tools": "those of them that a person has allowed once and for all",
    "approval_log": "a JSON Lines file, an audit log, for what people decided of calls",
    "approval_max_age_ms": "so long after a person allowed it a call can begin",
    "fs_read": "folders in which tools may read; each must exist",
    "fs_read_include": "globs of what they may read there",
    "fs_read_exclude": "globs of what they may not",
    "fs_write": "folders in which tools may write",
    "process_commands": "`name=path`: what the tool `process` may run; each an executable file, bound by its hash",
    "process_args": "for a command, globs: each of its arguments must be of [one of them](process.md#arguments); "
    "without an entry, any argument will do",
    "process_cwd": "the folder in which it runs; without it, the policy's",
    "process_env": "`KEY=value`: the environment in which it runs",
    "secrets": "`tool:ENV`: an environment variable that a tool is [given](tools.md#secrets); the agent never sees it",
    "github_token_env": "the environment variable with the token of the tools of GitHub",
    "model_provider": "whose models `model.call` calls",
    "model_api_key_env": "the environment variable with its key",
    "osv_fixture": "a file of recorded answers, in the place of the network",
    "model_fixture": "a file of recorded answers, in the place of the network",
    "named_network_cache_dir": "a folder for answers from the network",
    "named_network_cache_mode": "`read-through`, or `offline`: nothing but what is there",
    "named_network_cache_max_age_ms": "how old a kept answer may be",
    "named_network_cache_max_entries": "how many are kept",
    "named_network_retry_attempts": "how often a request is tried again",
    "worker": "accepted, and without effect: every turn has a process of its own",
    "budgets": "what one turn, one tool call and one job may use",
}

BUDGETS = {
    "timeout_ms": "wall time of a turn; then it is killed and fails",
    "max_steps": "the turn fails; see below",
    "max_microtasks": "the turn fails; JavaScript's jobs (an `await`, a `then`); Python has none",
    "max_rss_mb": "the allocation fails in the agent; where that is not caught, the turn (`attempted` is the least "
    "that it can have been)",
    "max_events": "the turn fails; of events, of notes, of `callTool` and of denied imports so many each",
    "max_event_bytes": "as JSON; the turn fails; an event, or a note",
    "max_state_bytes": "as JSON; `state.set` throws, nothing is stored",
    "max_tool_arg_bytes": "as JSON; the call throws: a tool's arguments, an input's payload or schema",
    "max_tool_result_bytes": "as JSON; within a turn the agent gets an `error` in place of the result; a durable "
    "call's is [kept](tools.md#large-results), and read in pages",
    "tool_timeout_ms": "the call times out",
    "process_output_stream_chunk_bytes": "output of the tool `process` is cut, and says so",
    "max_scheduler_turns": "the job expires (70), before the turn and its pending tool",
    "max_age_ms": "the same, by the job's age",
}
