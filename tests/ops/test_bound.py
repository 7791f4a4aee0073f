"""The modules, packages and event schemas of a job: bound at its start, and compared at every tick."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cruft_sched.clock import SystemClock
from cruft_sched.core.lifecycle import TurnStarted, advance
from cruft_sched.core.outcomes import EventError
from cruft_sched.core.sealing import digest
from cruft_sched.errors import ChangedError, PolicyError
from cruft_sched.ops.run import run
from cruft_sched.ops.tick import tick
from tests.ops.test_tick import ticked
from tests.support import Project

B3 = "blake3:" + "0" * 64
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
AGENTS = {
    "agent.js": 'import {one} from "./lib/one.js"; import {two} from "@s/two"; emit({kind: "sum", n: one + two});'
    "if (context.scheduler_resume) close(one + two); else scheduler.sleep(25)",
    "agent.py": 'import one, two\nemit({"kind": "sum", "n": one.one + two.two})\n'
    'if "scheduler_resume" in context: close(one.one + two.two)\nelse: scheduler.sleep(25)',
}
FILES = {
    "agent.js": {"lib/one.js": "export const one = 1", "two.js": "export const two = 2"},
    "agent.py": {"one.py": "one = 1", "two.py": "two = 2"},
}
both = pytest.mark.parametrize("name", ["agent.js", "agent.py"])


def made(folder: Path, name: str = "agent.js", **policy: Any) -> Project:
    """An agent with a module, a package, and an event that is expected."""
    one, two = FILES[name]
    (folder / "lib").mkdir(parents=True)
    for file, text in FILES[name].items():
        (folder / file).write_text(text)
    (folder / "sum.json").write_text(json.dumps(SCHEMA))
    package = "@s/two" if name == "agent.js" else "two"
    fields: dict[str, Any] = {
        "modules": {"lib/one.js" if name == "agent.js" else "one": one},
        "packages": {package: two},
        "package_integrity": {package: digest(FILES[name][two].encode())},
        "expected_events": {"sum": "sum.json"},
    }
    return Project(folder, AGENTS[name], name, **(fields | policy))


@both
def test_all_that_is_admitted_is_bound_and_kept(tmp_path: Path, name: str) -> None:
    project = made(tmp_path, name)
    store = project.start()
    job = store.load("job")
    files = [*FILES[name], "sum.json"]
    assert job.bound == {str(tmp_path / file): digest((tmp_path / file).read_bytes()) for file in files}
    for path, bound in job.bound.items():
        assert store.get_object(bound) == Path(path).read_bytes()
    assert ticked(project).status == "awaiting_timer"
    project.clock.now += 25
    assert ticked(project).status == "completed"
    assert project.events() == [{"kind": "sum", "n": 3}] * 2
    assert bytes(store.load("job").result) == b"3"


def test_a_job_that_admits_nothing_binds_nothing(project: Project) -> None:
    assert project.start().load("job").bound == {}


@both
@pytest.mark.parametrize("what", ["module", "package", "event schema"])
@pytest.mark.parametrize("how", ["edited", "deleted"])
def test_a_file_that_changed_between_ticks(tmp_path: Path, name: str, what: str, how: str) -> None:
    project = made(tmp_path, name)
    project.start()
    project.start("pinned", pin=True)
    for job_id in ("job", "pinned"):
        ticked(project, job_id)
    project.clock.now += 25
    file = tmp_path / [*FILES[name], "sum.json"][["module", "package", "event schema"].index(what)]
    kept = file.read_bytes()
    if how == "edited":
        file.write_bytes(kept + b" ")
    else:
        file.unlink()
    before, lines = project.manifest_file().read_bytes(), len(project.audit())
    with pytest.raises(
        ChangedError, match=f"^{what} (changed since start: )?{tmp_path}.*{file.name}.*restore the file"
    ) as error:
        tick(project.store, "job", project.clock)
    assert error.value.exit_code == 65
    assert project.manifest_file().read_bytes() == before
    assert len(project.audit()) == lines
    assert ticked(project, "pinned").status == "completed"
    file.write_bytes(kept)
    assert ticked(project).status == "completed"


def test_a_pinned_job_runs_on_the_bytes_of_its_start(tmp_path: Path) -> None:
    project = made(tmp_path)
    project.start(pin=True)
    (tmp_path / "lib/one.js").write_text("export const one = 10")
    (tmp_path / "sum.json").write_text("false")
    (tmp_path / "two.js").unlink()
    ticked(project)
    assert project.events() == [{"kind": "sum", "n": 3}]


def test_an_interrupted_turn_does_not_start_again_on_other_modules(tmp_path: Path) -> None:
    project = made(tmp_path)
    project.start()
    with project.store.hold("job") as held:
        held.commit(advance(held.load(), TurnStarted(), project.clock.now))
    (tmp_path / "two.js").write_text("export const two = 3")
    before = project.manifest_file().read_bytes()
    with pytest.raises(ChangedError, match="package changed since start"):
        tick(project.store, "job", project.clock)
    assert project.manifest_file().read_bytes() == before


def test_an_event_that_is_not_expected_fails_the_job(tmp_path: Path) -> None:
    project = made(tmp_path)
    (tmp_path / "sum.json").write_text('{"properties": {"n": {"maximum": 2}}}')
    project.start()
    report = ticked(project)
    assert report.status == "failed"
    error = EventError(message="an event is not as the policy expects: $.n: does not hold to maximum 2")
    assert project.store.load("job").error == report.error == error
    assert [line["type"] for line in project.audit()] == ["run_start", "run_end"]
    assert project.audit()[-1]["error"] == {"kind": "bad_event", "message": error.message}


def test_a_denied_import_is_in_the_log(tmp_path: Path) -> None:
    project = made(tmp_path)
    project.agent.write_text("try { await import('std') } catch { close(1) }")
    project.start()
    assert ticked(project).status == "completed"
    (denial,) = [line for line in project.audit() if line["type"] == "import_denial"]
    assert (denial["specifier"], denial["seq"]) == ("std", 1)
    assert project.store.load("job").budget_ledger.events == 0


BAD_FILES: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({"modules": {"a": "gone.js"}}, r"\$\.modules\.a: module .*gone\.js does not exist"),
    "folder": ({"modules": {"a": "lib"}}, r"\$\.modules\.a: module .*lib.* not a regular file"),
    "encoding": ({"modules": {"a": "latin.js"}}, r"\$\.modules\.a: module .*latin\.js is not UTF-8"),
    "nul": ({"modules": {"a": "nul.js"}}, r"\$\.modules\.a: module .*nul\.js holds a NUL character"),
    "size": ({"modules": {"a": "large.js"}}, r"\$\.modules\.a: module .*large\.js is \d+ bytes long"),
    "integrity": (
        {"package_integrity": {"@s/two": B3}},
        r"\$\.packages\.@s/two: package .*two\.js has the hash",
    ),
    "no schema": ({"expected_events": {"k": "latin.js"}}, r"\$\.expected_events\.k: event schema .* it is not JSON"),
    "bad schema": ({"expected_events": {"k": "odd.json"}}, r"\$\.expected_events\.k: event schema .*: \$\.pattern"),
    "twice": (
        {"expected_events": {"k": "twice.json"}},
        r"\$\.expected_events\.k: .*: \$\.type: .* given twice",
    ),
    "log": ({"audit_log": "empty.js", "modules": {"a": "empty.js"}}, r"\$\.audit_log: "),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_faults_of_the_policy(tmp_path: Path, name: str) -> None:
    project = made(tmp_path)
    (tmp_path / "latin.js").write_bytes(b"\xff")
    (tmp_path / "empty.js").touch()
    (tmp_path / "nul.js").write_bytes(b"a\0b")
    (tmp_path / "large.js").write_bytes(b" " * ((8 << 20) + 1))
    (tmp_path / "odd.json").write_text('{"pattern": "a+"}')
    (tmp_path / "twice.json").write_text('{"type": "object", "type": "object"}')
    changed, fault = BAD_FILES[name]
    project.write_policy(**(json.loads(project.policy.read_bytes()) | changed))
    for refused in (project.start, lambda: run(str(project.policy), SystemClock())):
        with pytest.raises(PolicyError, match=fault) as error:
            refused()
        assert len(error.value.faults) == 1
        assert error.value.exit_code == 65
    assert not Path(project.root).exists()


def test_every_bad_file_at_once(tmp_path: Path) -> None:
    project = made(tmp_path)
    for file in ("agent.js", "lib/one.js", "two.js", "sum.json"):
        (tmp_path / file).unlink()
    with pytest.raises(PolicyError) as error:
        project.start()
    where = [fault.partition(": ")[0] for fault in error.value.faults]
    assert where == ["$.agent", "$.modules.lib/one.js", "$.packages.@s/two", "$.expected_events.sum"]


@both
def test_a_plain_run_has_the_same(tmp_path: Path, name: str) -> None:
    project = made(tmp_path, name)
    project.agent.write_text(AGENTS[name].replace("scheduler.sleep(25)", "close(0)"))
    assert run(str(project.policy), SystemClock()).status == "completed"
    assert project.events() == [{"kind": "sum", "n": 3}]
    (tmp_path / "sum.json").write_text("false")
    assert isinstance(run(str(project.policy), SystemClock()).error, EventError)
