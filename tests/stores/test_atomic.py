"""The one durable write, with each of its operations failing in turn."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from cruft_sched.stores import atomic, disk
from tests.seam import Seam, failing

FAILURES = [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES, errno.EMFILE]


def operations(folder: Path) -> list[str]:
    with Seam() as seam:
        atomic.replace(str(folder / "counted"), b"x")
    return seam.seen


def test_the_order_is_the_durable_one(tmp_path: Path) -> None:
    assert operations(tmp_path) == ["open_file", "write", "fsync", "rename", "fsync_folder"]
    with Seam() as seam:
        atomic.create(str(tmp_path / "new"), b"x")
    assert seam.seen == ["open_file", "write", "fsync", "link", "unlink", "fsync_folder"]


@pytest.mark.parametrize("code", FAILURES)
def test_whatever_fails_before_the_rename_leaves_the_old_file_and_nothing_else(tmp_path: Path, code: int) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    for number in range(operations(tmp_path).index("rename") + 1):
        (tmp_path / "counted").unlink(missing_ok=True)
        with Seam(failing(number, code)), pytest.raises(OSError, match=os.strerror(code)):
            atomic.replace(str(target), b"new")
        assert target.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["file"]


def test_a_failed_create_leaves_nothing(tmp_path: Path) -> None:
    for number in range(4):
        with Seam(failing(number, errno.ENOSPC)), pytest.raises(OSError, match="No space"):
            atomic.create(str(tmp_path / "file"), b"new")
        assert os.listdir(tmp_path) == []


def test_create_never_replaces(tmp_path: Path) -> None:
    target = tmp_path / "file"
    atomic.create(str(target), b"first")
    with pytest.raises(FileExistsError):
        atomic.create(str(target), b"second")
    assert target.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["file"]


def test_short_writes_are_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "write", lambda fd, data: os.write(fd, data[:3]))
    atomic.replace(str(tmp_path / "file"), b"0123456789")
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_modes(tmp_path: Path) -> None:
    atomic.make_folder(str(tmp_path / "a" / "b"))
    atomic.replace(str(tmp_path / "a" / "b" / "file"), b"x")
    assert stat.S_IMODE(os.stat(tmp_path / "a" / "b").st_mode) == 0o700
    assert stat.S_IMODE(os.stat(tmp_path / "a").st_mode) == 0o700
    assert stat.S_IMODE(os.stat(tmp_path / "a" / "b" / "file").st_mode) == 0o600


def test_the_sweep_takes_temporaries_and_nothing_else(tmp_path: Path) -> None:
    for name in (".file.0123456789abcdef.tmp", "file", "kept.tmp", ".hidden"):
        (tmp_path / name).touch()
    atomic.sweep(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == [".hidden", "file", "kept.tmp"]


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"x" * 11)
    (tmp_path / "link").symlink_to("real")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="symbolic links"):
        atomic.read_file(str(tmp_path / "link"), 100)
    with pytest.raises(ValueError, match="not a regular file"):
        atomic.read_file(str(tmp_path / "fifo"), 100)
    with pytest.raises(ValueError, match="11 bytes long, and 10 are allowed"):
        atomic.read_file(str(tmp_path / "real"), 10)
    assert atomic.read_file(str(tmp_path / "real"), 11) == b"x" * 11
