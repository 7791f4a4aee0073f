"""What a policy allows, in sentences that a reviewer can read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from cruft_sched.core.policy import Budgets, Policy

_PLAIN = re.compile(r"[\w.*?/@+:=$~\[\]{}-]+")
NETWORK_TOOLS = ("osv.", "npm.", "github.", "model.")
"""How the names of tools begin that reach out of the machine."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Sentences, by what they are about; each list may be empty, and then that is not allowed at all."""

    may_call: list[str]
    may_import: list[str]
    may_read: list[str]
    may_write: list[str]
    may_run: list[str]
    runs_in: list[str]
    runs_with: list[str]
    may_reach: list[str]
    secrets: list[str]
    asks_a_person_for: list[str]
    approved_beforehand: list[str]
    may_emit: list[str]
    cannot: list[str]
    engine_writes: list[str]
    masks: list[str]
    budgets: list[str]
    isolation: str


def explain(policy: Policy, real: Mapping[str, str] | None = None) -> Explanation:
    """What the policy allows. `real` are the places that its paths lead to by way of links, where they do.

    Names in it are the author's own words, quoted as in JSON where they could be taken for ours.
    """
    tools = list(policy.tools)
    run = list(policy.process_commands) if "process" in tools else []
    reach = [name for name in tools if name.startswith(NETWORK_TOOLS)]
    places = _Places(real or {})
    read = places.folders(policy.fs_read, policy.fs_read_include, policy.fs_read_exclude) if _reads(tools) else []
    write = places.folders(policy.fs_write) if "writeArtifact" in tools else []
    asked = [name for name in policy.approval_required_tools if name not in policy.approved_tools]
    return Explanation(
        may_call=_names(name for name in tools if name not in policy.approval_required_tools),
        may_import=_imports(policy),
        may_read=read,
        may_write=write,
        may_run=[places.command(command) for command in run],
        runs_in=places.folders([policy.process_cwd]) if run and policy.process_cwd is not None else [],
        runs_with=_names(policy.process_env) if run else [],
        may_reach=_names(reach),
        secrets=_secrets(policy),
        asks_a_person_for=_names(asked),
        approved_beforehand=_names(policy.approved_tools),
        may_emit=["any event"] if policy.expected_events is None else _names(policy.expected_events),
        cannot=_cannot(policy, read=read, write=write, run=run, reach=reach),
        engine_writes=places.folders(
            path for path in (policy.audit_log, policy.session_file, policy.approval_log) if path is not None
        ),
        masks=_names(policy.redact_fields),
        budgets=_budgets(policy.budgets),
        isolation=_ISOLATION[policy.isolation],
    )


_KEPT_OFF = {
    "read": "read any file",
    "write": "write any file",
    "run": "run any program",
    "reach": "reach the network",
}
_ISOLATION = {
    "strict": "each turn is confined by the kernel: no files, no network, no other processes",
    "process": "each turn is a process with limits and no more: a Python agent can do what the user can",
}


def _imports(policy: Policy) -> list[str]:
    hashes = policy.package_integrity | policy.import_hook_integrity
    hashed = [f"{_name(name)} ({hashes[name]})" for name in (*policy.packages, *policy.import_hooks)]
    named = [*_names(policy.modules), *hashed]
    return named if policy.entry_module is None else [*named, f"{_name(policy.entry_module)} before the agent itself"]


def _reads(tools: list[str]) -> bool:
    return "readFile" in tools or "listFiles" in tools


class _Places:
    """Tells paths, and where they lead."""

    def __init__(self, real: Mapping[str, str]) -> None:
        self._real = real

    def folders(self, roots: Iterable[str], include: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[str]:
        only = f", only {', '.join(_names(include))}" if include else ""
        but = f", but not {', '.join(_names(exclude))}" if exclude else ""
        return [f"{self._place(root)}{only}{but}" for root in roots]

    def command(self, command: str) -> str:
        name, _, path = command.partition("=")
        return f"{name}={self._place(path)}"

    def _place(self, path: str) -> str:
        return f"{_name(path)} (which is {_name(self._real[path])})" if path in self._real else _name(path)


def _names(texts: Iterable[str]) -> list[str]:
    return list(map(_name, texts))


def _name(text: str) -> str:
    """A name that cannot be taken for more than one, or for words of ours."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def _secrets(policy: Policy) -> list[str]:
    named = [secret.partition(":") for secret in policy.secrets]
    secrets = [f"{tool} reads ${variable}" for tool, _, variable in named]
    if policy.github_token_env is not None:
        secrets.append(f"the tools of GitHub read ${policy.github_token_env}")
    if policy.model_api_key_env is not None:
        secrets.append(f"model.call reads ${policy.model_api_key_env}")
    return secrets


def _cannot(policy: Policy, **granted: list[str]) -> list[str]:
    """What is held off. A Python agent that only a process confines needs no tool to reach the machine."""
    tools = [] if policy.tools else ["call any tool"]
    if policy.isolation == "process" and policy.agent.endswith(".py"):
        return tools
    return tools + [_KEPT_OFF[what] for what, by in granted.items() if not by]


def _budgets(budgets: Budgets) -> list[str]:
    told = msgspec.to_builtins(budgets)
    return [f"{name}: {'no limit' if value is None else value}" for name, value in told.items()]
