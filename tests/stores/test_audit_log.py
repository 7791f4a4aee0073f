"""The audit log: chained within a run, appended to whole, and never written over somebody's file."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cruft_sched.core.audit import Chain, void_line
from cruft_sched.core.sealing import digest
from cruft_sched.errors import DataError, StorageError
from cruft_sched.ops.audit_replay import AuditReplay, Replayed
from cruft_sched.stores import disk
from cruft_sched.stores.audit_log import AuditLog, check_log, rotated
from cruft_sched.stores.audit_reader import LogReader
from tests.seam import Seam, before, failing

ROOT = Path(__file__).parents[2]


def test_a_run_is_a_chain() -> None:
    chain = Chain("job/turn-1")
    lines = [
        chain.line("run_start", 1, {}),
        chain.line("emit", 2, {"event": {"kind": "x"}}),
        chain.line("run_end", 3, {}),
    ]
    entries = [json.loads(line) for line in lines]
    assert [entry["seq"] for entry in entries] == [0, 1, 2]
    assert [entry["prev"] for entry in entries] == [None, digest(lines[0][:-1]), digest(lines[1][:-1])]
    assert (chain.head.lines, chain.head.head) == (3, digest(lines[2][:-1]))


def test_a_chain_without_lines_has_no_head() -> None:
    with pytest.raises(ValueError, match="has no line"):
        _ = Chain("r").head


def test_lines_are_appended_and_a_torn_one_is_ended_first(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "audit.jsonl"
    with AuditLog(str(path)) as log:
        log.append(Chain("a").line("run_start", 1, {}))
        log.sync()
    with path.open("ab") as file:
        file.write(b'{"type":"emit","torn')
    with AuditLog(str(path)) as log:
        log.append(void_line("a", "u", 2))
    lines = path.read_bytes().split(b"\n")
    assert json.loads(lines[0])["type"] == "run_start"
    assert lines[1] == b'{"type":"emit","torn'
    assert json.loads(lines[2]) == {"type": "run_void", "run_id": "a", "uid": "u", "at_ms": 2}
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_several_lines_are_one_write(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    chain = Chain("a")
    with AuditLog(str(path)) as log, Seam() as seam:
        log.append(b"".join(chain.line(kind, 1, {}) for kind in ("run_start", "emit", "run_end")))
    assert seam.seen == ["lock", "write"]
    assert [json.loads(line)["type"] for line in path.read_bytes().splitlines()] == ["run_start", "emit", "run_end"]


@pytest.mark.parametrize("content", [b"hello\n", b"{}\n", b'{"type":"cruft_agent"}\n', b"\n", b"x", b'{"a":1}', b"{\n"])
def test_somebodys_other_file_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(DataError, match="is no audit log") as error:
        AuditLog(str(path))
    assert error.value.exit_code == 65
    assert path.read_bytes() == content


def test_a_log_whose_first_line_was_torn_is_still_a_log(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b'{"type":"run_start","run_')
    with AuditLog(str(path)) as log:
        log.append(Chain("a").line("run_start", 1, {}))
    check_log(str(path), [])


def test_no_link_no_folder_no_pipe(tmp_path: Path) -> None:
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to("real")
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "", "fifo"):
        with pytest.raises(DataError):
            AuditLog(str(tmp_path / name))
    check_log(str(tmp_path / "absent"), [])
    assert not (tmp_path / "absent").exists()


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    with AuditLog(str(tmp_path / "audit.jsonl")) as log:
        with Seam(failing(1, 28)), pytest.raises(StorageError, match="No space left") as error:
            log.append(b"{}\n")
        assert error.value.exit_code == 74
        with Seam(failing(0, 28)), pytest.raises(StorageError, match="No space left"):
            log.sync()


def test_a_full_disk_leaves_no_part_of_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    chain = Chain("a")
    with AuditLog(str(path)) as log:
        log.append(chain.line("run_start", 1, {}))
        before = path.read_bytes()

        parts = iter((lambda fd, data: os.write(fd, data[: len(data) // 2]), full))
        monkeypatch.setattr(disk, "write", lambda fd, data: next(parts)(fd, data))
        with pytest.raises(StorageError, match="No space left"):
            log.append(chain.line("emit", 2, {}))
        assert path.read_bytes() == before


def full(_fd: int, _data: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


WRITER = """
import random, sys
from cruft_sched.core.audit import Chain
from cruft_sched.stores.audit_log import AuditLog
path, name, runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(runs):
    chain = Chain(f"{name}/turn-{number}", name)
    with AuditLog(path, 65536) as log:
        log.append(chain.line("run_start", 1, {}))
        for _ in range(4):
            log.append(b"".join(chain.line("emit", 2, {"event": "x" * random.randrange(400)}) for _ in range(3)))
        log.append(chain.line("run_end", 3, {"status": "ok"}))
        log.sync()
"""


def test_eight_processes_share_a_log_that_is_rotated(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    names = [f"job-{n}" for n in range(8)]
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name, "12"]) for name in names]
    assert [writer.wait() for writer in writers] == [0] * 8
    replayed = replay(path)
    assert replayed.ok
    assert {(run.run_id, run.lines, run.status) for run in replayed.runs} == {
        (f"{name}/turn-{n}", 14, "ok") for name in names for n in range(12)
    }
    assert len(replayed.files) > 2
    assert replayed.lines == 8 * 12 * 14
    assert b"\n\n" not in b"".join(Path(file).read_bytes() for file in replayed.files)


def replay(path: Path) -> AuditReplay:
    with LogReader(str(path)) as reader:
        return Replayed(reader).answer()


def test_a_log_that_is_too_large_is_put_aside_and_an_open_run_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    old, new = Chain("old"), Chain("new")
    with AuditLog(str(path)) as first:
        first.append(old.line("run_start", 1, {}))
        with AuditLog(str(path), 10) as second:
            second.append(new.line("run_start", 2, {}) + new.line("run_end", 2, {"status": "ok"}))
        first.append(old.line("run_end", 3, {"status": "ok"}))
    assert [json.loads(line)["run_id"] for line in (tmp_path / "audit.jsonl.1").read_bytes().splitlines()] == [
        "old"
    ] * 2
    assert [run.ok for run in replay(path).runs] == [True, True]
    (tmp_path / "audit.jsonl.1").rename(tmp_path / "audit.jsonl.7")
    with AuditLog(str(path), 10):
        pass
    assert rotated(str(path)) == [str(tmp_path / "audit.jsonl.7"), str(tmp_path / "audit.jsonl.8")]
    with AuditLog(str(path), 10), AuditLog(str(path), None):
        pass
    assert len(rotated(str(path))) == 2


def test_a_log_that_cannot_be_renamed_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with AuditLog(str(path)) as log:
        log.append(Chain("a").line("run_start", 1, {}))
    with Seam(before(lambda _, name: refuse(name))), AuditLog(str(path), 10) as log:
        log.append(Chain("b").line("run_start", 1, {}))
    assert os.listdir(tmp_path) == ["audit.jsonl"]
    assert len(path.read_bytes().splitlines()) == 2


def refuse(name: str) -> None:
    if name == "rename":
        raise PermissionError(errno.EACCES, "no")


ROTATION = """
import sys
from cruft_sched.core.audit import Chain
from cruft_sched.stores.audit_log import AuditLog
from tests.seam import Seam, killing
with Seam(killing(int(sys.argv[2]))):
    with AuditLog(sys.argv[1], 10) as log:
        chain = Chain("new")
        log.append(chain.line("run_start", 1, {}) + chain.line("run_end", 1, {"status": "ok"}))
        log.sync()
"""


def test_a_kill_at_any_step_of_a_rotation_loses_nothing(tmp_path: Path) -> None:
    for number in range(20):
        path = tmp_path / str(number) / "audit.jsonl"
        chain = Chain("old")
        with AuditLog(str(path)) as log:
            log.append(chain.line("run_start", 1, {}) + chain.line("run_end", 1, {"status": "ok"}))
        done = subprocess.run([sys.executable, "-c", ROTATION, str(path), str(number)], check=False, cwd=ROOT)
        runs = [(run.run_id, run.lines, run.ok) for run in replay(path).runs]
        assert runs[:1] == [("old", 2, True)]
        assert runs[1:] in ([], [("new", 2, True)])
        if done.returncode == 0:
            assert runs[1:]
            assert number > 6
            return
    pytest.fail("the rotation never came to its end")
