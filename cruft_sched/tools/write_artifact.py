"""`writeArtifact`: a file below one of the policy's roots for writing, whole or not at all."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from blake3 import blake3
from msgspec import Raw

from cruft_sched.core.awaits import WaitError
from cruft_sched.tools.authority import Authority, DeniedPathError, check_reach, parts_of, refusal
from cruft_sched.tools.tool import Call, as_json

NAME = "writeArtifact"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def run(call: Call) -> Raw | WaitError:
    """Write `args.text` to `args.path`, durably: beside it, fsynced, put in its place, and the folder fsynced."""
    path = call.args["path"]
    try:
        data = call.args["text"].encode()
        _write(path, data, call.authority(), overwrite=call.args.get("overwrite", False))
    except (DeniedPathError, ValueError, OSError) as error:
        return refusal(NAME, path, error)
    return as_json({"path": path, "bytes": len(data), "hash": f"blake3:{blake3(data).hexdigest()}"})


def _write(path: str, data: bytes, authority: Authority, *, overwrite: bool) -> None:
    *above, name = parts_of(path)
    roots = authority.write_roots()
    if not roots:
        raise DeniedPathError("the policy opens no folder for writing")
    shut = authority.shut()
    # Where the folder is already, in the order of the policy; else in its first one.
    root = next((one for one in roots if os.path.isdir(os.path.join(one, *above))), roots[0])
    fd = _folder(root, above, shut)
    try:
        _check_place(fd, name, shut)
        _put(fd, name, data, overwrite=overwrite)
    finally:
        os.close(fd)


def _folder(root: str, above: list[str], shut: frozenset[tuple[int, int]]) -> int:
    """The folder that the file goes into, made with those above it where they are missing, and through no link."""
    _make_root(root)
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        check_reach(fd, shut)
        for part in above:
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=fd)
                os.fsync(fd)
            try:
                below = os.open(part, _FOLDER, dir_fd=fd)
            except OSError as error:
                raise DeniedPathError(f"it lies in what is no folder, or a link ({error.strerror})") from None
            os.close(fd)
            fd = below
            check_reach(fd, shut)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _make_root(root: str) -> None:
    """Make a root that is missing, and what is missing above it, durably."""
    if os.path.isdir(root):
        return
    above = os.path.dirname(root)
    _make_root(above)
    with suppress(FileExistsError):
        os.mkdir(root, 0o755)
    fd = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _check_place(fd: int, name: str, shut: frozenset[tuple[int, int]]) -> None:
    try:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return
    if (found.st_dev, found.st_ino) in shut:
        raise DeniedPathError("it is out of reach of any tool")
    if not stat.S_ISREG(found.st_mode):
        raise DeniedPathError("what stands there is no regular file")


def _put(fd: int, name: str, data: bytes, *, overwrite: bool) -> None:
    temporary = f".{os.urandom(8).hex()}.tmp"
    file = os.open(temporary, _NEW, 0o644, dir_fd=fd)
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        finally:
            os.close(file)
        if overwrite:
            os.replace(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
        else:
            _link(fd, temporary, name)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=fd)
        raise
    os.fsync(fd)


def _link(fd: int, temporary: str, name: str) -> None:
    try:
        os.link(temporary, name, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
    except FileExistsError:
        raise ValueError("it exists: give overwrite: true, or another path") from None
    os.unlink(temporary, dir_fd=fd)
