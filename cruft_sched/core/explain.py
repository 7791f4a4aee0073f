"""What a policy allows, in sentences that a reviewer can read."""

from __future__ import annotations

import msgspec

from cruft_sched.core.policy import Budgets, Policy

NETWORK_TOOLS = ("osv.", "npm.", "github.", "model.")
"""How the names of tools begin that reach out of the machine."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Sentences, by what they are about; each list may be empty, and then that is not allowed at all."""

    may_call: list[str]
    may_import: list[str]
    may_read: list[str]
    may_write: list[str]
    may_run: list[str]
    may_reach: list[str]
    secrets: list[str]
    asks_a_person_for: list[str]
    may_emit: list[str]
    cannot: list[str]
    budgets: list[str]
    isolation: str


def explain(policy: Policy) -> Explanation:
    """What the policy allows. Names in it are the author's own words."""
    tools = list(policy.tools)
    run = list(policy.process_commands) if "process" in tools else []
    reach = [name for name in tools if name.startswith(NETWORK_TOOLS)]
    read = _folders(policy.fs_read, policy.fs_read_include, policy.fs_read_exclude) if _reads(tools) else []
    write = list(policy.fs_write) if "writeArtifact" in tools else []
    return Explanation(
        may_call=[name for name in tools if name not in policy.approval_required_tools],
        may_import=_imports(policy),
        may_read=read,
        may_write=write,
        may_run=run,
        may_reach=reach,
        secrets=_secrets(policy),
        asks_a_person_for=list(policy.approval_required_tools),
        may_emit=["any event"] if policy.expected_events is None else list(policy.expected_events),
        cannot=_cannot(policy, read=read, write=write, run=run, reach=reach),
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
    named = [*policy.modules, *(f"{name} ({hashes[name]})" for name in (*policy.packages, *policy.import_hooks))]
    return named if policy.entry_module is None else [*named, f"{policy.entry_module} before the agent itself"]


def _reads(tools: list[str]) -> bool:
    return "readFile" in tools or "listFiles" in tools


def _folders(roots: list[str], include: list[str], exclude: list[str]) -> list[str]:
    only = f", only {', '.join(include)}" if include else ""
    but = f", but not {', '.join(exclude)}" if exclude else ""
    return [f"{root}{only}{but}" for root in roots]


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
