"""The file store: what it makes, what it refuses, and what it leaves alone."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path

import pytest

from cruft_sched.core import manifest as manifests
from cruft_sched.core.lifecycle import TurnStarted, advance
from cruft_sched.errors import DataError, JobExistsError, SealError, StorageError, UnknownJobError, UsageError
from cruft_sched.ops.list_jobs import list_jobs
from cruft_sched.stores.file import FileStore
from tests.core.test_ids import HOSTILE
from tests.seam import Seam, failing
from tests.support import NOW, Project


def test_everything_is_private(project: Project) -> None:
    store = project.start()
    modes = {
        os.path.relpath(os.path.join(folder, name), store.root): stat.S_IMODE(
            os.lstat(os.path.join(folder, name)).st_mode
        )
        for folder, folders, files in os.walk(store.root)
        for name in folders + files
    }
    assert {name for name in modes if "/" not in name} == {"key", "lock", "objects", "jobs"}
    for name, mode in modes.items():
        assert mode == (0o700 if os.path.isdir(os.path.join(store.root, name)) else 0o600)
    assert sorted(os.listdir(store.folder("job"))) == ["lock", "manifest.json"]


def test_a_job_is_made_once(project: Project) -> None:
    project.start()
    before = project.manifest_file().read_bytes()
    with pytest.raises(JobExistsError) as refusal:
        project.start()
    assert refusal.value.exit_code == 73
    assert project.manifest_file().read_bytes() == before


def test_a_commit_counts_and_the_bound_bytes_are_kept(project: Project) -> None:
    store = project.start()
    with store.hold("job") as held:
        written = held.commit(advance(held.load(), TurnStarted(), NOW))
    assert store.load("job") == written
    assert written.revision == 2
    assert store.get_object(written.policy_hash) == project.policy.read_bytes()
    assert store.get_object(written.agent_hash) == project.agent.read_bytes()


def test_a_broken_object_is_refused_and_a_new_start_mends_it(project: Project) -> None:
    store = project.start()
    name = store.load("job").agent_hash
    path = Path(store.root, "objects", name.removeprefix("blake3:"))
    path.write_bytes(b"other")
    with pytest.raises(DataError, match="missing or broken"):
        store.get_object(name)
    project.start("another")
    assert store.get_object(name) == project.agent.read_bytes()


@pytest.mark.parametrize("job_id", HOSTILE)
def test_no_hostile_id_reaches_the_disk(project: Project, job_id: str) -> None:
    store = project.start()
    with Seam() as seam:
        for call in (store.folder, store.manifest_path, store.load):
            with pytest.raises(UsageError):
                call(job_id)
        with pytest.raises(UsageError), store.hold(job_id):
            pass
    assert seam.seen == []


def test_an_unknown_job(project: Project) -> None:
    store = project.start()
    with pytest.raises(UnknownJobError) as error:
        store.load("nobody")
    assert error.value.exit_code == 65
    with pytest.raises(UnknownJobError), store.hold("nobody"):
        pass
    assert os.listdir(os.path.join(store.root, "jobs")) == ["job"]


def broken_manifests(store: FileStore) -> dict[str, bytes]:
    """A manifest for each way in which one can be broken."""
    good = Path(store.manifest_path("good")).read_bytes()
    record = manifests.encode(store.load("good"))
    seal = store.store_key().seal
    return {
        "torn": good[:-40],
        "empty": b"",
        "edited": good.replace(b'"created"', b'"completed"', 1),
        "garbage": b"\0\xff" * 500,
        "swapped": good,
        "newer": seal(record.replace(b'"schema_version":1', b'"schema_version":2').replace(b'"good"', b'"newer"')),
        "no-json": seal(b'{"a":nope}'),
    }


def test_broken_manifests_are_refused_left_alone_and_harm_nobody(project: Project) -> None:
    store = project.start("good")
    broken = broken_manifests(store)
    for name, data in broken.items():
        project.start(name)
        project.manifest_file(name).write_bytes(data)
    for name, data in broken.items():
        with pytest.raises(DataError) as refusal:
            store.load(name)
        assert refusal.value.exit_code == 65
        with pytest.raises(DataError), store.hold(name) as held:
            held.load()
        assert project.manifest_file(name).read_bytes() == data
    listing, faults = list_jobs(store)
    assert [job.job_id for job in listing.jobs] == ["good"]
    assert len(faults) == len(broken)


def test_a_manifest_that_is_a_link_or_a_folder(project: Project, tmp_path: Path) -> None:
    store = project.start("good")
    project.start("link")
    moved = tmp_path / "moved.json"
    project.manifest_file("link").rename(moved)
    project.manifest_file("link").symlink_to(moved)
    with pytest.raises(DataError, match="is a link"):
        store.load("link")
    project.start("folder")
    project.manifest_file("folder").unlink()
    project.manifest_file("folder").mkdir()
    with pytest.raises(DataError, match="not a regular file"):
        store.load("folder")
    listing, faults = list_jobs(store)
    assert ([job.job_id for job in listing.jobs], len(faults)) == (["good"], 2)


def test_a_foreign_job_is_told_from_a_tampered_one(project: Project, tmp_path: Path) -> None:
    project.start("ours")
    foreign = Project(tmp_path / "foreign")
    foreign.start("theirs")
    shutil.copytree(foreign.store.folder("theirs"), project.store.folder("theirs"))
    with pytest.raises(SealError, match="sealed under another key"):
        project.store.load("theirs")
    assert project.store.load("ours").status == "created"


def test_a_lost_key_is_said_once_and_never_replaced(project: Project) -> None:
    store = project.start()
    os.unlink(os.path.join(store.root, "key"))
    with pytest.raises(SealError, match="is missing"):
        project.store.load("job")
    with pytest.raises(SealError, match="is missing"):
        list_jobs(project.store)
    with pytest.raises(SealError, match="is missing"):
        project.start("another")
    assert not os.path.exists(os.path.join(store.root, "key"))


def test_a_key_that_others_can_read_is_refused(project: Project) -> None:
    store = project.start()
    os.chmod(os.path.join(store.root, "key"), 0o640)
    with pytest.raises(SealError, match="chmod 600"):
        project.store.load("job")


def test_the_key_may_lie_elsewhere(project: Project, tmp_path: Path) -> None:
    key = tmp_path / "keys" / "k"
    store = FileStore.create(project.root, str(key))
    assert key.exists()
    assert not os.path.exists(os.path.join(store.root, "key"))
    assert FileStore(project.root, str(key)).store_key().id == store.store_key().id


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EMFILE])
def test_a_failing_disk_leaves_the_old_manifest_whole(project: Project, code: int) -> None:
    store = project.start()
    before = project.manifest_file().read_bytes()
    with store.hold("job") as held:
        started = advance(held.load(), TurnStarted(), NOW)
        for number in range(4):  # open, write, fsync, rename
            with Seam(failing(number, code)), pytest.raises(StorageError) as error:
                held.commit(started)
            assert error.value.exit_code == 74
            assert project.manifest_file().read_bytes() == before
    assert sorted(os.listdir(store.folder("job"))) == ["lock", "manifest.json"]


def test_what_an_interrupted_write_left_is_swept(project: Project) -> None:
    store = project.start()
    Path(store.folder("job"), ".manifest.json.0011223344556677.tmp").touch()
    Path(store.root, ".key.0011223344556677.tmp").touch()
    with store.hold("job") as held:
        held.load()
    project.start("another")
    assert sorted(os.listdir(store.folder("job"))) == ["lock", "manifest.json"]
    assert sorted(os.listdir(store.root)) == ["jobs", "key", "lock", "objects"]


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no store at"):
        FileStore(str(tmp_path / "nothing"))
    assert os.listdir(tmp_path) == []
