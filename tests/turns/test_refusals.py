"""What must be refused, in both tiers, as root and as a user; each attempt succeeds where nothing confines it."""

from __future__ import annotations

import errno
import json
import os
import pty
import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.readable import Python, readable_python

AS_ROOT = os.geteuid() == 0
ROOT_ALONE = {
    *("open a packet socket", "mount", "change the root", "load a kernel program", "catch page faults", "reboot"),
    *("change its groups", "set the clock", "lock memory", "read the kernel's log"),
}
"""What a user other than root cannot do outside either; so there it shows nothing that it is refused."""

USERS = {
    "root": "root, of a Python that only root can read, or that everybody can",
    "nobody": "a user without privileges",
    "readable": "root, of a Python that everybody can read: the turn gives up root's identity",
}
LEFT_TO = {"stdlib": {"look at a file"}, "strict": set()}
"""What a tier does not refuse."""


@pytest.fixture(scope="module")
def everybodys() -> Iterator[Python]:
    with readable_python() as python:
        yield python


@pytest.fixture
def surroundings() -> Iterator[dict[str, Any]]:
    """What the attempts are made at: a folder and a file that everybody can write, and a listening socket."""
    folder = Path(tempfile.mkdtemp(prefix="cruft-attempts-"))
    folder.chmod(0o777)
    there = folder / "there"
    there.write_text("hello")
    there.chmod(0o666)
    bpf_map = struct.pack("IIIII", 2, 4, 4, 1, 0) + bytes(52)  # an array of one word
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield {
            "folder": str(folder),
            "file": str(there),
            "port": server.getsockname()[1],
            "bpf_map": bpf_map.decode("latin-1"),
        }
    shutil.rmtree(folder)


def attempts(python: Python, user: str, way: str, surroundings: dict[str, Any]) -> Any:
    """What became of each attempt, made by a user, at a terminal where somebody has typed a line."""
    master, terminal = pty.openpty()
    os.fchmod(terminal, 0o666)
    os.write(master, b"x\n")
    try:
        source = (Path(__file__).parent / "attempts.py").read_text()
        ran = python.run(
            *("-c", source, way, json.dumps(surroundings)),
            as_nobody=user == "nobody" and AS_ROOT,
            stdin=terminal,
            start_new_session=True,
            timeout=60,
        )
    finally:
        os.close(master)
        os.close(terminal)
    assert ran.returncode == 0, ran.stderr.decode()
    return json.loads(ran.stdout)


def interpreter(user: str, everybodys: Python) -> Python:
    if user != "nobody" and not AS_ROOT:
        pytest.skip("root's turns need root")
    return Python(sys.executable) if user == "root" else everybodys


@pytest.mark.parametrize("user", ["root", "nobody"])
def test_every_attempt_succeeds_where_nothing_confines_it(
    user: str, everybodys: Python, surroundings: dict[str, Any]
) -> None:
    done = attempts(interpreter(user, everybodys), user, "outside", surroundings)
    assert done.pop("have an environment")
    assert done.pop("read its standard input") == "x"
    done.pop("have descriptors")  # none was handed down here
    failed = {name: errno.errorcode.get(code, code) for name, code in done.items() if code}
    expected = ROOT_ALONE if user == "nobody" else set()
    assert set(failed) <= expected, failed


@pytest.mark.parametrize("tier", ["stdlib", "strict"])
@pytest.mark.parametrize("user", USERS)
def test_every_attempt_is_refused(user: str, tier: str, everybodys: Python, surroundings: dict[str, Any]) -> None:
    told = attempts(interpreter(user, everybodys), user, tier, surroundings)
    assert told["level"]["tier"] == tier
    results = told["ending"]["result"]
    assert len(results) > 90
    assert len(results.pop("have descriptors")) == 2  # its pipes
    assert set(results.pop("have an environment")) <= {"LC_CTYPE", "PYTHONHASHSEED", "TZ"}
    assert results.pop("read its standard input") == ""
    assert {name for name, code in results.items() if code == 0} == LEFT_TO[tier]
    refusals = {errno.EPERM, errno.EACCES}
    others = {name: code for name, code in results.items() if code not in {0, *refusals}}
    assert set(others) <= {"run a shell"}  # the C library has a status of its own for a shell that did not start


@pytest.mark.parametrize("user", USERS)
def test_the_identity_is_given_up_where_it_can_be(user: str, everybodys: Python, surroundings: dict[str, Any]) -> None:
    python = interpreter(user, everybodys)
    expected = {"nobody": {"own"}, "readable": {"dropped"}, "root": {"kept", "dropped"}}[user]
    assert attempts(python, user, "stdlib", surroundings)["level"]["identity"] in expected


@pytest.mark.parametrize("user", USERS)
def test_the_doctor_finds_both_tiers(user: str, everybodys: Python) -> None:
    ran = interpreter(user, everybodys).run(
        *("-m", "cruft_sched", "agent", "doctor"), as_nobody=user == "nobody" and AS_ROOT
    )
    report = json.loads(ran.stdout)
    assert (ran.returncode, report["available"]) == (0, True), ran.stderr
    assert [(tier["tier"], tier["available"]) for tier in report["tiers"]] == [("strict", True), ("stdlib", True)]
    assert all(tier["landlock_abi"] >= 1 for tier in report["tiers"])
