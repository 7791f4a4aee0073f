"""A program is run as it is ordered, it is the one that was checked, and what it says is told: real processes."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cruft_sched.errors import ChangedError, DataError, UsageError
from cruft_sched.tools.process import run as engine
from cruft_sched.tools.process.run import ProcessOrder, Signal
from tests.tools.process.running import PYTHON, hash_of, order, python, run

ECHO, CAT, SLEEP, HEAD = "/bin/echo", "/bin/cat", "/bin/sleep", "/usr/bin/head"
MIB = 1 << 20


def said(code: str, *args: str, **fields: Any) -> Any:
    """What a Python program prints, as JSON."""
    result = run(python(f"import json, os, sys\n{code}", *args, **fields))
    assert result.exit_code == 0, result.stderr.text
    return json.loads(result.stdout.text)


# What the program is given


def test_it_gets_its_arguments_as_they_are() -> None:
    args = ["a b", "", "'\"", "$(id)", "`id`", "*", "; rm -rf x", "żółw\n", "--", "-c"]
    assert said("print(json.dumps(sys.argv[1:]))", *args) == args


def test_it_gets_the_name_it_has() -> None:
    assert run(order(CAT, "/proc/self/cmdline")).stdout.text == f"{CAT}\0/proc/self/cmdline\0"


def test_it_gets_this_environment_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s")
    env = {"A": "=b=", "_C": "", "Z": "ż\n"}
    assert run(order(CAT, "/proc/self/environ", env=env)).stdout.text == "A==b=\0_C=\0Z=ż\n\0"
    assert run(order(CAT, "/proc/self/environ")).stdout.text == ""


def test_it_runs_in_its_folder(tmp_path: Path) -> None:
    assert said("print(json.dumps(os.getcwd()))", cwd=str(tmp_path)) == str(tmp_path)


def test_without_input_it_reads_nothing() -> None:
    assert run(order(CAT)).stdout.bytes == 0
    assert said("print(json.dumps(os.readlink('/proc/self/fd/0')))") == "/dev/null"


def test_it_gets_its_input_while_its_output_is_read() -> None:
    text = "żółw 🐢\n" * 400_000
    result = run(order(CAT, stdin=text, max_output_bytes=16 * MIB))
    assert (result.stdout.text == text, result.stdout.truncated) == (True, False)


def test_an_input_that_nobody_reads_is_no_fault() -> None:
    assert run(order(ECHO, "hi", stdin="x" * MIB)).stdout.text == "hi\n"


def test_it_inherits_no_descriptor(tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        seen = said("print(json.dumps(sorted(map(int, os.listdir('/proc/self/fd')))))")
    assert seen[:3] == [0, 1, 2]
    assert len(seen) == 4  # and the one with which it looks


def test_it_has_a_session_of_its_own() -> None:
    pid, group, session = said("print(json.dumps([os.getpid(), os.getpgid(0), os.getsid(0)]))")
    assert pid == group == session != os.getsid(0)


def test_no_signal_is_ignored_or_blocked() -> None:
    driver = (
        "import signal, sys\n"
        "for n in (1, 2, 10, 13, 15, 17, 34, 64): signal.signal(n, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n"
        "from tests.tools.process.running import order, run\n"
        f"print(run(order({CAT!r}, '/proc/self/status')).stdout.text)\n"
    )
    ran = subprocess.run([sys.executable, "-c", driver], capture_output=True, text=True, timeout=60, check=True)
    status = dict(line.split(":\t", 1) for line in ran.stdout.splitlines() if ":\t" in line)
    assert {status[name].strip("0") for name in ("SigIgn", "SigBlk", "SigCgt")} == {""}


def test_its_files_are_its_users_alone(tmp_path: Path) -> None:
    run(python("open('new', 'w').close()", cwd=str(tmp_path)))
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


def test_it_gains_no_privilege_and_leaves_no_core() -> None:
    assert "NoNewPrivs:\t1" in run(order(CAT, "/proc/self/status")).stdout.text
    assert said("import resource; print(json.dumps(resource.getrlimit(resource.RLIMIT_CORE)))") == [0, 0]


def test_its_memory_is_bounded() -> None:
    result = run(python("bytearray(600 << 20)", max_memory_bytes=500 * MIB))
    assert "MemoryError" in result.stderr.text


# How it ends


@pytest.mark.parametrize("code", [0, 1, 255])
def test_an_exit_code(code: int) -> None:
    result = run(python(f"raise SystemExit({code})"))
    assert (result.exit_code, result.signal) == (code, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGHUP])
def test_a_signal(number: signal.Signals) -> None:
    result = run(python(f"import os; os.kill(os.getpid(), {int(number)})"))
    assert (result.exit_code, result.signal) == (None, Signal(int(number), number.name))
    assert [result.timed_out, result.stopped, result.too_many_processes] == [False] * 3


def test_its_time() -> None:
    result = run(order(SLEEP, "0.2"))
    assert 200 <= result.duration_ms < 5000


# What it says


def test_its_outputs_are_apart() -> None:
    result = run(python("import os; os.write(2, b'error'); os.write(1, b'out')"))
    assert (result.stdout.text, result.stderr.text) == ("out", "error")


def test_what_is_over_the_limit_is_counted() -> None:
    result = run(python("import os; os.write(1, b'a' * 10); os.write(2, b'b' * 11)", max_output_bytes=10))
    assert (result.stdout.text, result.stdout.truncated) == ("a" * 10, False)
    assert (result.stderr.text, result.stderr.bytes, result.stderr.dropped_bytes) == ("b" * 10, 11, 1)
    assert result.stderr.truncated


def test_a_character_is_not_cut() -> None:
    result = run(order(ECHO, "-n", "aż🐢", max_output_bytes=5))
    assert (result.stdout.text, result.stdout.bytes, result.stdout.dropped_bytes) == ("aż", 7, 4)


def test_what_is_no_utf8_is_replaced() -> None:
    result = run(python("import os; os.write(1, b'a\\xff\\xc5')"))
    assert (result.stdout.text, result.stdout.truncated) == ("a\ufffd\ufffd", False)


def test_nothing_may_be_kept() -> None:
    result = run(order(ECHO, "hi", max_output_bytes=0))
    assert (result.stdout.text, result.stdout.dropped_bytes) == ("", 3)


def test_a_gigabyte_is_read_and_not_kept() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = run(order(HEAD, "-c", str(1 << 30), "/dev/zero", max_output_bytes=1000))
    assert (result.exit_code, result.stdout.bytes, len(result.stdout.text)) == (0, 1 << 30, 1000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 << 10  # KiB


def test_an_endless_output_ends_at_the_timeout() -> None:
    result = run(order(CAT, "/dev/zero", timeout_ms=300))
    assert result.timed_out
    assert result.stdout.truncated


# What is run


def script(folder: Path, text: str, mode: int = 0o755) -> str:
    path = folder / "script"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_another_program_than_expected_does_not_run(tmp_path: Path) -> None:
    path = script(tmp_path, f"#!{PYTHON} -IS\nopen('ran', 'w')\n")
    with pytest.raises(ChangedError, match="not the one"):
        run(order(path, expected_hash=hash_of(ECHO), cwd=str(tmp_path)))
    assert not (tmp_path / "ran").exists()


def test_a_script_is_run_by_its_path(tmp_path: Path) -> None:
    path = script(tmp_path, f"#!{PYTHON} -IS\nimport sys; print(sys.argv)\n")
    assert run(order(path, "a b")).stdout.text == f"['{path}', 'a b']\n"


@pytest.mark.parametrize("how", ["written to", "replaced"])
@pytest.mark.parametrize("kind", ["script", "binary"])
def test_a_program_that_changes_once_it_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, kind: str
) -> None:
    path = tmp_path / "program"
    good = Path(ECHO).read_bytes() if kind == "binary" else b"#!/bin/echo good\n"
    path.write_bytes(good)
    path.chmod(0o755)
    made = order(str(path), "good", expected_hash=hash_of(str(path)))

    def change(_paths: object) -> list[str]:  # what comes after the check
        other = path if how == "written to" else tmp_path / "other"
        other.write_bytes(Path(CAT).read_bytes() if kind == "binary" else b"#!/bin/echo evil\n")
        other.chmod(0o755)
        other.rename(path)
        return ["/"]

    monkeypatch.setattr(engine, "reachable", change)
    with pytest.raises(DataError, match="changed after it was checked"):
        run(made)


def test_what_is_no_program(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o755)
    for path in (tmp_path, tmp_path / "fifo", tmp_path / "none", tmp_path / "none" / "none"):
        with pytest.raises(DataError, match="program"):
            run(order(str(path), expected_hash="blake3:" + "0" * 64))
    with pytest.raises(DataError, match="not executable"):
        run(order(script(tmp_path, "#!/bin/sh\n", 0o644)))


def test_there_is_no_shell_to_fall_back_to(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be run: Exec format error"):
        run(order(script(tmp_path, "echo hi\n")))


def test_an_interpreter_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be run: No such file"):
        run(order(script(tmp_path, f"#!{tmp_path}/none\n")))


BAD: dict[str, dict[str, Any]] = {
    "a NUL in an argument": {"args": ["a\0b"]},
    "an argument that is no text": {"args": ["\ud800"]},
    "an argument that is too long": {"args": ["x" * (128 << 10)]},
    "too many arguments": {"args": ["x"] * 5000},
    "a NUL in a value": {"env": {"A": "b\0"}},
    "a value that is no text": {"env": {"A": "\udfff"}},
    "a variable without a name": {"env": {"": "b"}},
    "a variable with a =": {"env": {"A=B": "c"}},
    "a variable that ends its line": {"env": {"A\n": "c"}},
    "a folder that starts nowhere": {"cwd": "tmp"},
    "a folder with a NUL": {"cwd": "/srv\0"},
    "a program that is looked for": {"executable": "echo"},
    "a hash of another kind": {"expected_hash": "sha256:" + "0" * 64},
    "a hash that ends its line": {"expected_hash": "blake3:" + "0" * 64 + "\n"},
    "no time": {"timeout_ms": 0},
    "less than no output": {"max_output_bytes": -1},
    "no process": {"max_processes": 0},
    "no memory": {"max_memory_bytes": 0},
    "what starts nowhere is out of reach": {"out_of_reach": ["store"]},
}


@pytest.mark.parametrize("name", BAD)
def test_an_order_that_makes_no_sense_is_refused(name: str) -> None:
    good: dict[str, Any] = {"executable": ECHO, "expected_hash": hash_of(ECHO), "cwd": "/"}
    with pytest.raises(UsageError, match="the process is refused"):
        run(ProcessOrder(**(good | {"timeout_ms": 1000, "max_output_bytes": 1} | BAD[name])))


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder"):
        run(order(ECHO, cwd=str(tmp_path / "none")))


def test_more_than_the_kernel_takes_at_once() -> None:
    with pytest.raises(DataError, match="Argument list too long"):
        run(order(ECHO, *["x" * 100_000] * 40))


def test_it_starts_soon() -> None:
    took = []
    for _ in range(10):
        started = time.monotonic()
        run(order(ECHO))
        took.append(time.monotonic() - started)
    assert min(took) < 0.25  # some 20 ms on a machine with nothing else to do
