"""The kinds of lines in an audit log, and their fields, for the docs. Each also has `type`, `run_id`, `seq`, `at_ms`,
`prev` (`run_void` alone has no `seq` and no `prev`)."""

from __future__ import annotations

KINDS = {
    "run_start": "`uid` (the job's, or the run's own), `job_id`, `policy_hash`, `agent_hash`; how far the turn was "
    "confined: `isolation`, and where that is `strict` also `tier`, `landlock_abi`, `identity`",
    "emit": "`event`",
    "note": "`note`",
    "agent_output": "`stream` (`stdout`, `stderr`), `text`: what a Python agent printed, 64 KiB a turn; `truncated` "
    "where there was more",
    "state_set": "`key`, and the size of the value in `bytes`: what the turn changed in sum, at its end",
    "state_delete": "`key`",
    "tool_approval": "`tool`, `proposed` (the arguments that the agent had asked for), `args` (those that were "
    "allowed), `approved`, `by`, `reason`, `decided_ms`, `await_id`: what a person decided of a durable call",
    "tool_call": "`tool`, `args`: before the call is made; of a durable call, in the turn that is told of its outcome, "
    "with its `await_id`, and the `args` that were executed",
    "tool_result": "`tool`, `result`; of a durable call also `await_id`, and where it is so `attempts` (of more than "
    "one), `by` (who decided an outcome that nobody knew); so have the next three",
    "tool_error": "`tool`, `error`",
    "tool_timeout": "`tool`, `error`",
    "tool_invalid_args": "`tool`, `error`",
    "tool_denial": "`tool`, `args`, `message`: in place of a `tool_call`, or after it where the tool "
    "refused what its arguments name",
    "import_denial": "`specifier`: the agent asked for a module that the policy does not admit (cut at 200 characters)",
    "budget_exceeded": "`budget`, `limit`, `attempted`",
    "scheduler_await": "`request`",
    "run_end": "`status` (`suspended`, `ok`, `error`, `cancelled`, `interrupted`), `events`, `tools`, "
    "`child_exit_code`, `result` or `error`",
    "run_void": "`uid`: the run of that id was never committed",
}
