"""What `start` binds, and everything that it refuses without leaving a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cruft_sched.core.sealing import digest
from cruft_sched.errors import CruftError, DataError, PolicyError, UsageError
from cruft_sched.ops.start import start
from tests.support import NOW, Project


def test_the_manifest_is_bound(tmp_path: Path) -> None:
    project = Project(tmp_path, context={"a": 1, "b": {"c": 2}}, state={"s": [1, 2]})
    store = project.start(context=b'{"b": 3, "d": [4]}', labels={"team": "ops"})
    job = store.load("job")
    assert job.policy_hash == digest(project.policy.read_bytes())
    assert job.agent_hash == digest(project.agent.read_bytes())
    assert (job.policy_path, job.agent_path) == (str(project.policy), str(project.agent))
    assert {key: json.loads(bytes(value)) for key, value in job.context.items()} == {"a": 1, "b": 3, "d": [4]}
    assert bytes(job.state["s"]) == b"[1,2]"
    assert (job.status, job.turn_cursor, job.revision, job.created_ms) == ("created", 0, 1, NOW)
    assert job.labels == {"team": "ops"}
    assert len(job.uid) == 32


def test_the_default_store_is_beside_the_policy(project: Project) -> None:
    started = start(str(project.policy), project.clock)
    assert started.store == str(project.folder / ".cruft" / "agent-scheduler")
    assert started.job_id.startswith("job-")
    assert Path(started.manifest).exists()
    assert start(str(project.policy), project.clock).job_id != started.job_id


def refused(project: Project, **more: Any) -> CruftError:
    with pytest.raises(CruftError) as error:
        project.start(**more)
    assert not Path(project.root).exists()
    assert not (project.folder / "audit.jsonl").exists()
    return error.value


@pytest.mark.parametrize("context", [b"", b"[]", b"{", b'{"a":1,"a":2}', b'{"scheduler_resume":{}}', b"\xff", b"NaN"])
def test_bad_context(project: Project, context: bytes) -> None:
    assert isinstance(refused(project, context=context), DataError)


def test_bad_job_id(project: Project) -> None:
    assert isinstance(refused(project, job_id="../x"), UsageError)


def test_no_policy(project: Project) -> None:
    project.policy.unlink()
    assert str(refused(project)) == f"policy {project.policy} does not exist; check the path"


def test_the_files_a_policy_names_are_faults_of_the_policy(project: Project) -> None:
    (project.folder / "notes.txt").write_text("notes")
    project.write_policy(agent="gone.js", audit_log="notes.txt")
    error = refused(project)
    assert isinstance(error, PolicyError)
    assert len(error.faults) == 2
    assert error.faults[0].startswith("$.agent: agent ")
    assert error.faults[1].startswith("$.audit_log: ")


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("agent.txt", b"", "in no language known here"),
        ("agent.js", b"\xff", "is not UTF-8"),
        ("agent.js", b"a\0b", "NUL character"),
        ("agent.js", b"x" * ((8 << 20) + 1), "bytes long"),
    ],
)
def test_bad_agents(project: Project, name: str, content: bytes, what: str) -> None:
    (project.folder / name).write_bytes(content)
    project.write_policy(agent=name)
    assert what in str(refused(project))


def test_an_agent_that_is_a_folder(project: Project) -> None:
    (project.folder / "dir.js").mkdir()
    project.write_policy(agent="dir.js")
    assert "not a regular file" in str(refused(project))
