"""The audit log: chained within a run, appended to whole, and never written over somebody's file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cruft_sched.core.audit import Chain, void_line
from cruft_sched.core.sealing import digest
from cruft_sched.errors import DataError, StorageError
from cruft_sched.stores.audit_log import AuditLog, check_log
from tests.seam import Seam, failing


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
