"""What `redact_fields` name reaches no log, no result, no error, no message; the next turn still has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from cruft_sched.core.manifest import TERMINAL
from cruft_sched.core.redaction import MASK, MAX_SECRETS, Redactor
from tests.support import Project, Ran, cruft, schedule

SECRETS = ("ctx-hunter2", "state-hunter2", "late-hunter2", "args-hunter2", "4711471147")
FIELDS: dict[str, Any] = {
    "redact_fields": ["password", "pin"],
    "tools": ["echo", "fail"],
    "context": {"login": {"password": SECRETS[0], "user": "ann"}, "end": "close"},
    "state": {"db": [{"password": SECRETS[1]}], "pin": 4711471147},
}
AGENTS = {
    "agent.js": """
const r = context.scheduler_resume;
state.set("more", {password: "late-hunter2"});
const secrets = [context.login.password, state.get("db")[0].password, state.get("more").password];
const all = [...secrets, state.get("pin")].join("/");
emit({kind: "said", text: "see " + all, password: "x", [all]: 1, deep: [{pin: [1, 2]}]});
auditNote(all);
await callTool("echo", {password: "args-hunter2", text: all});
emit({after: "args-hunter2"});
await callTool(all).catch((error) => emit({error: error.message}));
await callTool("fail", {password: "args-hunter2"}).catch((error) => emit({error: error.message}));
if (context.end === "throw") throw new Error("no way: " + all);
if (typeof scheduler === "undefined" || r) close({all, login: context.login, r: r && r.result});
else scheduler.callTool("echo", {password: "args-hunter2", all});
""",
    "agent.py": """
r = context.get("scheduler_resume")
state.set("more", {"password": "late-hunter2"})
secrets = [context["login"]["password"], state.get("db")[0]["password"], state.get("more")["password"]]
all = "/".join([*secrets, str(state.get("pin"))])
emit({"kind": "said", "text": "see " + all, "password": "x", all: 1, "deep": [{"pin": [1, 2]}]})
audit_note(all)
call_tool("echo", {"password": "args-hunter2", "text": all})
emit({"after": "args-hunter2"})
for name, args in ((all, None), ("fail", {"password": "args-hunter2"})):
    try: call_tool(name, args)
    except ToolError as error: emit({"error": str(error)})
if context["end"] == "throw": raise ValueError("no way: " + all)
if "scheduler" not in globals() or r: close({"all": all, "login": context["login"], "r": r and r["result"]})
else: scheduler.call_tool("echo", {"password": "args-hunter2", "all": all})
""",
}
both = pytest.mark.parametrize("name", AGENTS)


def found(project: Project, *said: Ran) -> set[str]:
    """The secrets that stand anywhere but in the policy, and in what the next turn needs of the manifest."""
    texts = [ran.out + ran.err for ran in said]
    for path in project.folder.rglob("*"):
        if path.name == "manifest.json":
            kept = json.loads(path.read_bytes())
            needed = () if kept["status"] in TERMINAL else ("context", "state", "awaits", "secrets")
            texts.append(json.dumps({name: kept[name] for name in kept if name not in needed}))
        elif path.is_file() and path.name not in ("agent-policy.json", *AGENTS) and "objects" not in path.parts:
            texts.append(path.read_text(encoding="utf-8", errors="replace"))
    return {secret for secret in SECRETS for text in texts if secret in text}


@both
def test_a_job_keeps_its_secrets_to_itself(name: str, tmp_path: Path) -> None:
    project = Project(tmp_path, AGENTS[name], name, **FIELDS)
    job = ["job", "--store", project.root]
    said = [schedule("start", "--policy", str(project.policy), "--job-id", *job)]
    said.append(schedule("tick", *job))
    assert found(project, *said) == set()
    assert schedule("status", *job).json["state"]["more"] == {"password": "late-hunter2"}
    said.append(schedule("tick", *job))
    assert said[-1].json["status"] == "completed", said[-1].err
    said += [schedule("replay", *job), schedule("list", *job[1:])]
    assert found(project, *said) == set()
    kept = schedule("status", *job).json
    assert kept["state"]["more"] == {"password": MASK}
    assert kept["context"]["login"] == {"password": MASK, "user": "ann"}
    assert kept["result"]["login"] == {"password": MASK, "user": "ann"}
    assert kept["result"]["all"] == "/".join([MASK] * 4)
    assert len(project.events()) == 8
    assert project.events()[0]["deep"] == [{"pin": MASK}]


@both
def test_an_error_is_masked_wherever_it_is_told(name: str, tmp_path: Path) -> None:
    project = Project(tmp_path, AGENTS[name], name, **FIELDS | {"context": FIELDS["context"] | {"end": "throw"}})
    job = ["job", "--store", project.root]
    schedule("start", "--policy", str(project.policy), "--job-id", *job)
    ran = schedule("tick", *job)
    assert (ran.code, ran.json["status"]) == (70, "failed")
    assert f"no way: {MASK}/{MASK}" in ran.err
    assert found(project, ran, schedule("replay", *job)) == set()


@both
@pytest.mark.parametrize("how", ["cancel", "expire"])
def test_a_job_that_is_ended_keeps_none(name: str, how: str, tmp_path: Path) -> None:
    project = Project(tmp_path, AGENTS[name], name, budgets={"max_scheduler_turns": 1}, **FIELDS)
    job = ["job", "--store", project.root]
    schedule("start", "--policy", str(project.policy), "--job-id", *job)
    schedule("tick", *job)
    if how == "cancel":
        project.policy.unlink()  # what to mask is known without it
        said = schedule("cancel", *job, "--reason", "it says args-hunter2")
    else:
        said = schedule("tick", *job)
    kept = schedule("status", *job)
    assert kept.json["status"] == {"cancel": "cancelled", "expire": "expired"}[how]
    assert found(project, said, kept) == set()


LATE = "late" + "-secret-1"
LATER_TURNS = {
    "made in the last turn": "const s = 'late' + '-secret-1'; state.set('password', s); state.set('o', s); close(s)",
    "given by a person": """
const r = context.scheduler_resume;
if (!r) scheduler.waitForInput("a", {});
else if (r.kind === "input") { state.set("n", r.result.password); scheduler.sleep(0) }
else { emit({x: state.get("n")}); close(state.get("n")) }""",
    "given to a tool": """
const r = context.scheduler_resume;
if (!r) scheduler.callTool("echo", {password: "late" + "-secret-1"});
else if (r.kind === "tool") { state.set("n", r.result.password); scheduler.sleep(0) }
else { emit({x: state.get("n")}); throw new Error(state.get("n")) }""",
    "deleted again": """
const r = context.scheduler_resume;
if (!r) { state.set("password", "late" + "-secret-1"); scheduler.sleep(0) }
else if (state.get("password")) {
  state.set("n", state.get("password")); state.delete("password"); scheduler.sleep(0)
} else { emit({[state.get("n")]: 1}); close(state.get("n")) }""",
}


@pytest.mark.parametrize("how", LATER_TURNS)
def test_what_was_seen_once_is_masked_in_every_later_turn(how: str, tmp_path: Path) -> None:
    project = Project(tmp_path, LATER_TURNS[how], tools=["echo"], redact_fields=["password"])
    job = ["job", "--store", project.root]
    said = [schedule("start", "--policy", str(project.policy), "--job-id", *job), schedule("tick", *job)]
    if how == "given by a person":
        assert LATE not in said[1].out
        token = schedule("token", *job).json["token"]
        answer = json.dumps({"password": LATE})
        said.append(schedule("input", *job, "--token", token, "--json", answer))
    while project.store.load("job").status not in TERMINAL:
        said.append(schedule("tick", *job))
    assert project.store.load("job").secrets == ()
    texts = [
        path.read_text(errors="replace")
        for path in project.folder.rglob("*")
        if path.is_file() and path.name != "agent.js"
    ]
    texts += [ran.out + ran.err for ran in (*said, schedule("status", *job), schedule("replay", *job))]
    assert [text for text in texts if LATE in text] == []


def test_too_many_secrets_mask_all_that_follows() -> None:
    redactor = Redactor(["key"])
    redactor.learn("key", Raw(json.dumps([f"secret-{n}" for n in range(MAX_SECRETS + 1)]).encode()))
    assert redactor.secrets is None
    assert Redactor(["key"], redactor.secrets).text("anything") == MASK


@pytest.mark.parametrize(
    ("secrets", "text", "left"),
    [
        (["aaaa1234", "1234567890"], "x aaaa1234567890 y", f"x {MASK} y"),
        (["abab"], "ababab", MASK),
        ([f"abcd{MASK}efgh"], f"an abcd{MASK}efgh", f"an {MASK}"),
        ([{"key-secret": 1}], "the key-secret", f"the {MASK}"),
        (['a"bcd\\e'], json.dumps(json.dumps('a"bcd\\e')), f'"\\"{MASK}\\""'),
    ],
)
def test_secrets_that_overlap_or_hide(secrets: list[Any], text: str, left: str) -> None:
    redactor = Redactor(["key"])
    redactor.learn("key", Raw(json.dumps(secrets).encode()))
    assert redactor.text(text) == left


@both
def test_a_run_of_its_own_does_too(name: str, tmp_path: Path) -> None:
    project = Project(tmp_path, AGENTS[name], name, **FIELDS)
    ran = cruft("agent", "run", "--policy", str(project.policy))
    assert ran.json["status"] == "completed"
    assert found(project, ran) == set()


def test_without_fields_nothing_is_touched() -> None:
    value = Raw(b'{"password": 1e3}')
    assert Redactor().value(value) is value
    assert Redactor().text("anything") == "anything"


def test_short_values_are_masked_by_their_key_alone() -> None:
    redactor = Redactor(["pin"])
    redactor.learn("pin", Raw(b'"abc"'))
    assert redactor.text("abcabc") == "abcabc"
    assert json.loads(bytes(redactor.value(Raw(b'{"pin": "abc", "a": "abc"}')))) == {"pin": MASK, "a": "abc"}


@pytest.mark.parametrize("secret", ["two\nlines here", 'quo"ted\\text', "ünï¢ode", "1234.5"])
def test_a_secret_is_found_in_the_forms_it_comes_in(secret: str) -> None:
    redactor = Redactor(["key"])
    redactor.learn("key", Raw(json.dumps(secret).encode()))
    for told in (secret, repr(secret), json.dumps(secret), ascii(secret)):
        masked = redactor.text(f"failed with {told} at once")
        assert secret not in masked
        assert MASK in masked
