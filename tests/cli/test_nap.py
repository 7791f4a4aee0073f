"""The seed's nap, through the installed program, each command a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support import Project, bare_environment, cruft, schedule

AS_WRITTEN = """
if (context.scheduler_resume) emit({kind:"awake"});
else { emit({kind:"sleeping"}); scheduler.sleep(25); }
"""


def until_ready(job_id: str, store: str) -> dict[str, object]:
    """Tick until the timer has come: no tick before it runs a turn."""
    while True:
        ran = schedule("tick", job_id, "--store", store)
        assert ran.code == 0, ran.err
        if ran.json.get("ready") is not False:
            return dict(ran.json)


def test_the_nap_as_written(tmp_path: Path) -> None:
    project = Project(tmp_path, AS_WRITTEN)
    ran = schedule("start", "--policy", str(project.policy), "--store", project.root, "--job-id=nap")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json == {
        "type": "agent_scheduler_start",
        "schema_version": 1,
        "job_id": "nap",
        "status": "created",
        "store": project.root,
        "manifest": f"{project.root}/jobs/nap/manifest.json",
    }
    first = schedule("tick", "nap", "--store", project.root)
    assert (first.code, first.json["status"], first.json["child_exit_code"]) == (0, "awaiting_timer", 0)
    assert project.events() == [{"kind": "sleeping"}]
    assert until_ready("nap", project.root)["status"] == "completed"
    assert project.events() == [{"kind": "sleeping"}, {"kind": "awake"}]
    again = schedule("tick", "nap", "--store", project.root)
    assert (again.code, again.out) == (75, "")
    assert again.err == "cruft agent schedule tick: job nap is completed, and has no next turn; start a new job\n"


def test_a_tick_before_the_deadline_runs_no_turn(project: Project) -> None:
    project.start("nap", context=b'{"nap_ms": 86400000}')
    deadline = schedule("tick", "nap", "--store", project.root).json["deadline_ms"]
    before = project.manifest_file("nap").read_bytes()
    early = schedule("tick", "nap", "--store", project.root)
    assert early.code == 0
    assert early.json["now_ms"] < deadline
    assert early.json == {
        "type": "agent_scheduler_tick",
        "schema_version": 1,
        "job_id": "nap",
        "status": "awaiting_timer",
        "ready": False,
        "deadline_ms": deadline,
        "now_ms": early.json["now_ms"],
    }
    assert project.manifest_file("nap").read_bytes() == before


def test_replay_status_and_list(project: Project) -> None:
    project.start("b", labels={"team": "ops"})
    project.start("a")
    schedule("tick", "b", "--store", project.root)
    until_ready("b", project.root)
    replay = schedule("replay", "b", "--store", project.root).json
    assert (replay["type"], replay["status"], replay["terminal"]) == ("agent_scheduler_replay", "completed", True)
    assert [entry["event"] for entry in replay["timeline"]][-2:] == ["turn_started", "completed"]
    assert replay["claim_boundary"] == {
        "source": "scheduler_manifest",
        "per_turn_audit": "not_reconstructed_by_this_replay_slice",
        "raw_js_continuation": "not_claimed",
    }
    status = schedule("status", "b", "--store", project.root)
    manifest = json.loads(project.manifest_file("b").read_bytes())
    assert manifest.pop("integrity").startswith("blake3-keyed:")
    assert status.json == manifest
    assert status.out.startswith('{\n  "type": "cruft_agent_scheduler_job_manifest",\n')
    jobs = schedule("list", "--store", project.root).json["jobs"]
    assert [(job["job_id"], job["status"]) for job in jobs] == [("a", "created"), ("b", "completed")]
    for filters in (["--status", "created"], ["--label", "team=ops"]):
        found = schedule("list", "--store", project.root, *filters).json["jobs"]
        assert len(found) == 1


def test_the_store_may_come_from_the_environment(project: Project) -> None:
    environment = bare_environment() | {"CRUFT_STORE": str(project.folder / "elsewhere")}
    arguments = ["--policy", str(project.policy), "--job-id", "job"]
    assert cruft("agent", "schedule", "start", *arguments, env=environment).code == 0
    assert cruft("agent", "schedule", "list", env=environment).json["store"] == str(project.folder / "elsewhere")
    assert cruft("agent", "schedule", "tick", "job", env=environment).json["status"] == "awaiting_timer"


def test_a_plain_run_has_no_scheduler_and_one_turn(tmp_path: Path) -> None:
    project = Project(tmp_path, 'emit({kind: "once", scheduler: typeof scheduler}); close([1])')
    ran = cruft("agent", "run", "--policy", str(project.policy))
    assert ran.code == 0
    assert (ran.json["type"], ran.json["status"], ran.json["result"]) == ("agent_run", "completed", [1])
    assert project.events() == [{"kind": "once", "scheduler": "undefined"}]
    assert project.audit()[0]["run_id"] == ran.json["run_id"]


def test_a_plain_run_that_fails(tmp_path: Path) -> None:
    project = Project(tmp_path, "scheduler.sleep(1)")
    ran = cruft("agent", "run", "--policy", str(project.policy))
    assert (ran.code, ran.json["status"], ran.json["error"]["name"]) == (70, "failed", "ReferenceError")
    assert ran.err.startswith("cruft agent run: the agent threw ReferenceError: scheduler is not defined; ")


def test_the_demo() -> None:
    ran = cruft("demo")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("$ cruft agent schedule ") == 2 * (5 + 6 + 4)
    assert ran.out.count('"ready":false') == 2
    assert ran.out.count("input token does not match pending wait") == 2
    assert ran.out.count('"agent_scheduler_budget_exceeded"') == 2
    assert ran.out.endswith("Every outcome was right.\n")
