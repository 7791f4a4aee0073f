"""docs/process.md says how a permitted git runs other programs. It does; and those are held to what it is held to."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from cruft_sched.tools.process.run import ProcessOrder
from tests.tools.process.running import order, run

GIT = shutil.which("git")
pytestmark = pytest.mark.skipif(GIT is None, reason="there is no git here")

WAYS: dict[str, tuple[list[str], list[str]]] = {
    "core.fsmonitor": (["core.fsmonitor", "./evil"], ["status"]),
    "a hook": (["core.hooksPath", "hooks"], ["commit", "--allow-empty", "-m", "x"]),
    "an alias": (["alias.st", "!./evil"], ["st"]),
    "textconv": (["diff.evil.textconv", "./evil"], ["diff", "file"]),
    "diff.external": (["diff.external", "./evil"], ["diff"]),
    "a filter": (["filter.evil.clean", "./evil"], ["add", "file"]),
    "core.sshCommand": (["core.sshCommand", "./evil"], ["fetch", "ssh://h.invalid/x"]),
    "ext::": (["protocol.ext.allow", "always"], ["fetch", "ext::./evil"]),
    "credential.helper": (["credential.helper", "!./evil"], ["credential", "fill"]),
    "core.editor": (["core.editor", "./evil"], ["commit", "--allow-empty"]),
    "gpg.program": (["gpg.program", "./evil"], ["commit", "-S", "--allow-empty", "-m", "x"]),
}
BY_ARGUMENT = {
    "-c": ["-c", "core.fsmonitor=./evil", "status"],
    "--upload-pack": ["fetch", "--upload-pack=./evil", "."],
    "rebase --exec": ["rebase", "--exec", "./evil", "--root"],
    "grep -O": ["grep", "-O./evil", "one"],
    "difftool -x": ["difftool", "-y", "-x", "./evil"],
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository, and a program in it that shows that it ran and tries to read the key of the store beside it."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "key").write_text("the key")
    evil = f"#!/bin/sh\necho ran > {folder}/ran\n/bin/cat {tmp_path}/store/key > {folder}/stolen 2> {folder}/said\n"
    (folder / "evil").write_text(evil)
    (folder / "evil").chmod(0o755)
    (folder / "hooks").mkdir()
    (folder / "hooks" / "pre-commit").symlink_to(folder / "evil")
    (folder / "file").write_text("one")
    (folder / ".gitattributes").write_text("file diff=evil filter=evil\n")
    assert GIT is not None
    for args in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "x"]):
        subprocess.run([GIT, *args], cwd=folder, check=True, env={"HOME": str(tmp_path)})
    (folder / "file").write_text("one two")
    return folder


def git(repository: Path, *args: str) -> ProcessOrder:
    names = ("AUTHOR", "COMMITTER")
    env = {f"GIT_{who}_{what}": "x" for who in names for what in ("NAME", "EMAIL")}
    assert GIT is not None
    return order(
        os.path.realpath(GIT),
        *args,
        cwd=str(repository),
        env=env | {"PATH": "/usr/bin:/bin", "HOME": str(repository), "TMPDIR": str(repository / ".git")},
        stdin="protocol=https\nhost=h.invalid\n\n",
        out_of_reach=[str(repository.parent / "store")],
    )


def check_it_ran_and_stole_nothing(repository: Path) -> None:
    assert (repository / "ran").exists()
    assert (repository / "stolen").read_text() == ""
    assert "Permission denied" in (repository / "said").read_text()


@pytest.mark.parametrize("name", WAYS)
def test_what_its_repository_says_is_run_and_held(repository: Path, name: str) -> None:
    config, args = WAYS[name]
    assert GIT is not None
    subprocess.run([GIT, "config", *config], cwd=repository, check=True, env={"HOME": str(repository)})
    run(git(repository, *args))
    check_it_ran_and_stole_nothing(repository)


@pytest.mark.parametrize("name", BY_ARGUMENT)
def test_what_its_arguments_say_is_run_and_held(repository: Path, name: str) -> None:
    assert GIT is not None
    if name == "rebase --exec":
        subprocess.run([GIT, "checkout", "-q", "file"], cwd=repository, check=True, env={"HOME": str(repository)})
    run(git(repository, *BY_ARGUMENT[name]))
    check_it_ran_and_stole_nothing(repository)


def test_it_works_beside_a_store(repository: Path) -> None:
    assert run(git(repository, "status", "--short", "file")).stdout.text == " M file\n"


def test_it_cannot_list_a_folder_on_the_way(repository: Path) -> None:
    made = git(repository, "status", "--short")
    (repository / "store").mkdir()
    inside = msgspec.structs.replace(made, out_of_reach=[str(repository / "store")])
    assert run(made).stdout.text == " M file\n"
    assert "could not open directory" in run(inside).stderr.text
