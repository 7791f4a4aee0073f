"""Modules through the installed program."""

from __future__ import annotations

from pathlib import Path

from cruft_sched.core.sealing import digest
from tests.support import Project, cruft, schedule

AGENT = 'import {greet} from "greet"; emit({kind: greet("you")}); if (!context.scheduler_resume) scheduler.sleep(0)'


def made(folder: Path) -> Project:
    project = Project(
        folder,
        AGENT,
        packages={"greet": "greet.js"},
        package_integrity={"greet": "sha256-CMywHhMnTolSJRktdbaz9n67zQsHq6tKJZohXRevkww="},
    )
    (folder / "greet.js").write_text("export const greet = (name) => `hello ${name}`;\n")
    return project


def test_a_job_with_a_package_and_one_that_changed(tmp_path: Path) -> None:
    project = made(tmp_path)
    store = ["--store", project.root]
    for job_id, more in (("job", []), ("pinned", ["--pin"])):
        started = schedule("start", "--policy", str(project.policy), *store, "--job-id", job_id, *more)
        assert started.code == 0, started.err
        assert schedule("tick", job_id, *store).json["status"] == "awaiting_timer"
    bound = schedule("status", "job", *store).json["bound"]
    assert list(bound) == [str(tmp_path / "greet.js")]
    (tmp_path / "greet.js").write_text("export const greet = () => 'bye';\n")
    before = project.manifest_file().read_bytes()
    refused = schedule("tick", "job", *store)
    assert (refused.code, refused.out) == (65, "")
    assert f"package changed since start: {tmp_path}/greet.js" in refused.err
    assert project.manifest_file().read_bytes() == before
    assert schedule("tick", "pinned", *store).json["status"] == "completed"
    assert project.events() == [{"kind": "hello you"}] * 3


def test_a_package_with_another_integrity(tmp_path: Path) -> None:
    project = made(tmp_path)
    (tmp_path / "greet.js").write_text("export const greet = () => 'bye';\n")
    for ran in (
        schedule("start", "--policy", str(project.policy), "--store", project.root),
        cruft("agent", "run", "--policy", str(project.policy)),
    ):
        assert (ran.code, ran.out) == (65, "")
        assert f"$.packages.greet: package {tmp_path}/greet.js has the hash sha256-" in ran.err
    assert not Path(project.root).exists()


def test_a_job_with_an_import_hook_that_is_the_entry_module(tmp_path: Path) -> None:
    integrity = digest(b"emit({kind: 'hook'});\n")
    project = Project(
        tmp_path,
        "emit({kind: 'agent'}); if (!context.scheduler_resume) scheduler.sleep(0)",
        import_hooks={"hook": "hook.js"},
        import_hook_integrity={"hook": integrity},
        entry_module="hook",
    )
    (tmp_path / "hook.js").write_text("emit({kind: 'hook'});\n")
    store = ["--store", project.root]
    assert schedule("start", "--policy", str(project.policy), *store, "--job-id", "job").code == 0
    assert schedule("tick", "job", *store).json["status"] == "awaiting_timer"
    assert project.events() == [{"kind": "hook"}, {"kind": "agent"}]
    explained = cruft("agent", "policy", "explain", str(project.policy))
    assert explained.json["explanation"]["may_import"] == [f"hook ({integrity})", "hook before the agent itself"]
    (tmp_path / "hook.js").write_text("emit({kind: 'other'});\n")
    refused = schedule("tick", "job", *store)
    assert (refused.code, refused.out) == (65, "")
    assert f"import hook changed since start: {tmp_path}/hook.js" in refused.err
