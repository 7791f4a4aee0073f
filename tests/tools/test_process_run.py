"""A program is run as it is ordered, and nothing of it is left: real processes, in every way they can end."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from cruft_sched.errors import ChangedError, DataError, SystemFailedError, UnavailableError, UsageError
from cruft_sched.tools import process_run
from cruft_sched.tools.process_run import ProcessOrder, Signal
from tests.old_kernel import LANDLOCK
from tests.tools.running import PYTHON, TREE, hash_of, lifeline, order, python, run

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
    env = {"A": "=b=", "_C": "", "Ż".replace("Ż", "Z"): "ż\n"}
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
        "from tests.tools.running import order, run\n"
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


# Nothing is left


def test_what_it_leaves_behind_is_killed(tmp_path: Path) -> None:
    with lifeline(tmp_path) as line:
        code = TREE + "\nimport time\nwhile True:\n    time.sleep(0.01)\n"
        code = code.replace("while True:\n    time", "for _ in range(20):\n    time")  # both are there by then
        result = run(python(code, line.path))
        assert (result.exit_code, result.timed_out) == (0, False)
        assert line.all_dead()


def test_at_the_timeout_the_whole_tree_is_killed(tmp_path: Path) -> None:
    with lifeline(tmp_path) as line:
        result = run(python(TREE + "\nstay(b'program')", line.path, timeout_ms=1000))
        assert (result.timed_out, result.stopped, result.signal) == (True, False, Signal(9, "SIGKILL"))
        assert line.all_dead()


def test_when_it_is_stopped_the_whole_tree_is_killed(tmp_path: Path) -> None:
    with lifeline(tmp_path) as line:
        seen: list[str] = []

        def stop() -> bool:
            seen[:] = line.lines(3)
            return True

        result = run(python(TREE + "\nstay(b'program')", line.path), stop)
        assert sorted(seen) == ["child", "grandchild", "program"]
        assert (result.timed_out, result.stopped, result.exit_code) == (False, True, None)
        assert line.all_dead()


def test_when_stop_raises_the_whole_tree_is_killed(tmp_path: Path) -> None:
    with lifeline(tmp_path) as line:

        def stop() -> None:
            line.lines(3)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(python(TREE + "\nstay(b'program')", line.path), stop)
        assert line.all_dead()


def test_it_may_put_things_in_order_first(tmp_path: Path) -> None:
    code = (
        "import signal, sys\n"
        "signal.signal(15, lambda *_: (open('done', 'w').close(), sys.exit(3)))\n"
        "while True: signal.pause()"
    )
    result = run(python(code, cwd=str(tmp_path), timeout_ms=500, grace_ms=10_000))
    assert (result.timed_out, result.exit_code, (tmp_path / "done").exists()) == (True, 3, True)
    assert result.duration_ms < 5000


def test_without_grace_it_is_killed() -> None:
    result = run(order(SLEEP, "60", timeout_ms=100, grace_ms=0))
    assert (result.timed_out, result.signal) == (True, Signal(9, "SIGKILL"))


DRIVER = (
    "import sys\n"
    "from tests.tools.running import TREE, python, run\n"
    "run(python(TREE + '\\nstay(b\"program\")', sys.argv[1], timeout_ms=int(sys.argv[2])))\n"
)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_the_tree_dies_with_its_driver(tmp_path: Path, number: signal.Signals) -> None:
    with lifeline(tmp_path) as line:
        driver = subprocess.Popen([sys.executable, "-c", DRIVER, line.path, "60000"])
        assert sorted(line.lines(3)) == ["child", "grandchild", "program"]
        driver.send_signal(number)
        assert driver.wait() == -number
        assert line.all_dead(within_s=20)


def test_the_tree_of_a_driver_that_is_halted_ends_at_its_time(tmp_path: Path) -> None:
    with lifeline(tmp_path) as line:
        driver = subprocess.Popen([sys.executable, "-c", DRIVER, line.path, "3000"])
        try:
            line.lines(3)
            driver.send_signal(signal.SIGSTOP)
            assert line.all_dead(within_s=20)
        finally:
            driver.kill()
            driver.wait()


def test_a_supervisor_that_is_killed_takes_the_program_with_it(tmp_path: Path) -> None:
    with lifeline(tmp_path) as line:
        code = "import os, sys, time; os.write(os.open(sys.argv[1], 1), b'%d\\n' % os.getppid()); time.sleep(60)"

        def stop() -> None:
            supervisor = int(line.lines(1)[0])
            assert "cruft_sched.tools.supervisor" in Path(f"/proc/{supervisor}/cmdline").read_text()
            os.kill(supervisor, signal.SIGKILL)

        with pytest.raises(SystemFailedError, match="supervisor was killed"):
            run(python(code, line.path), stop)
        assert line.all_dead(within_s=10)


def test_a_fork_bomb_is_ended(tmp_path: Path) -> None:
    bomb = (  # of 512 processes and no more, each for 20 s at most: a fault of ours is not to take the machine
        "import os, sys, time\nos.open(sys.argv[1], os.O_WRONLY)\nfor _ in range(9):\n    os.fork()\n"
        "    time.sleep(0.01)\ntime.sleep(20)\n"
    )
    with lifeline(tmp_path) as line:
        result = run(python(bomb, line.path, max_processes=50))
        assert (result.too_many_processes, result.timed_out, result.signal) == (True, False, Signal(9, "SIGKILL"))
        assert result.duration_ms < 15_000
        assert line.all_dead()


def test_as_many_processes_as_it_may_have(tmp_path: Path) -> None:
    few = "import os\nfor _ in range(4):\n    os.fork()\nos.write(1, b'x')\n"
    few += "try:\n    while True: os.wait()\nexcept ChildProcessError: pass\n"
    result = run(python(few, cwd=str(tmp_path), max_processes=16))
    assert (result.exit_code, result.stdout.text) == (0, "x" * 16)


def test_a_chain_that_always_moves_on_is_ended(tmp_path: Path) -> None:
    chain = (
        "import os, sys, time\nos.open(sys.argv[1], os.O_WRONLY)\nuntil = time.monotonic() + 20\n"
        "if os.fork(): sys.exit(7)\n"
        "while time.monotonic() < until:\n    os.setsid() if os.getsid(0) != os.getpid() else None\n"
        "    if os.fork(): os._exit(0)\n"
    )
    with lifeline(tmp_path) as line:
        result = run(python(chain, line.path))
        assert result.exit_code == 7
        assert result.duration_ms < 15_000
        assert line.all_dead()


def test_a_chain_is_ended_at_the_timeout(tmp_path: Path) -> None:
    chain = (
        "import os, sys, time\nos.open(sys.argv[1], os.O_WRONLY)\nuntil = time.monotonic() + 20\n"
        "if os.fork(): time.sleep(60)\n"
        "while time.monotonic() < until:\n    if os.fork(): os._exit(0)\n"
    )
    with lifeline(tmp_path) as line:
        result = run(python(chain, line.path, timeout_ms=500))
        assert result.timed_out
        assert line.all_dead()


def test_an_output_that_someone_else_holds_is_not_waited_for(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    code = (
        "import array, os, socket, sys\ns = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
        "s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1]))])\nos.write(1, b'hi')"
    )
    with listener:
        result = run(python(code, str(tmp_path / "s")))
        held, _ = listener.accept()  # its output's end is in there, and stays open as long as this
        with held:
            assert (result.stdout.text, result.timed_out) == ("hi", False)


def test_nothing_is_left_open_in_the_driver() -> None:
    run(order(ECHO))
    before = sorted(os.listdir("/proc/self/fd"))
    run(order(ECHO, stdin="x"))
    run(order(SLEEP, "60", timeout_ms=50))
    with pytest.raises(ChangedError):
        run(order(ECHO, expected_hash="blake3:" + "0" * 64))
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_several_at_once() -> None:
    texts: dict[int, str] = {}

    def one(n: int) -> None:
        texts[n] = run(order(CAT, stdin=f"{n}" * 100_000, max_output_bytes=MIB)).stdout.text

    threads = [threading.Thread(target=one, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == {n: f"{n}" * 100_000 for n in range(6)}


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

    monkeypatch.setattr(process_run, "reachable", change)
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


# What is out of its reach


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A project with a store in it."""
    (tmp_path / "project" / "store" / "jobs").mkdir(parents=True)
    (tmp_path / "project" / "store" / "key").write_text("key")
    (tmp_path / "project" / "policy.json").write_text("policy")
    (tmp_path / "project" / "work").mkdir()
    (tmp_path / "project" / "work" / "file").write_text("work")
    (tmp_path / "project" / "link").symlink_to("store")
    return tmp_path / "project"


def shut(place: Path) -> list[str]:
    return [str(place / "store"), str(place / "policy.json"), str(place / "audit.jsonl")]


ATTEMPTS = {
    "read it": "open('store/key').read()",
    "read it by its whole name": "open(os.path.abspath('store/key')).read()",
    "read it through a link": "open('link/key').read()",
    "read it through /proc": "open('/proc/self/root' + os.path.abspath('store/key')).read()",
    "read it through its own folder": "open('/proc/self/cwd/store/key').read()",
    "read it from within": "os.chdir('store'); open('key').read()",
    "read the policy": "open('policy.json').read()",
    "write it": "open('store/key', 'w')",
    "cut it": "os.truncate('store/key', 0)",
    "list it": "os.listdir('store')",
    "open it as a folder": "os.open('store', os.O_RDONLY | os.O_DIRECTORY)",
    "delete it": "os.unlink('store/key')",
    "move it out": "os.rename('store/key', 'work/key')",
    "move the store": "os.rename('store', 'work/store')",
    "move another over it": "os.rename('work/file', 'store/key')",
    "link it": "os.link('store/key', 'work/key')",
    "make a file in it": "open('store/new', 'w')",
    "make a folder in it": "os.mkdir('store/new')",
    "make what is to be a log": "open('audit.jsonl', 'w')",
    "list the way to it": "os.listdir('.')",
    "replace a link on the way": "os.unlink('link')",
    "run from it": "os.execv('store/key', ['x'])",
    "give a link to it": "os.symlink('../store/key', 'work/way'); open('work/way').read()",
    "start another that reads it": f"import subprocess; subprocess.run([{CAT!r}, 'store/key'], check=True)",
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_it_cannot(place: Path, name: str) -> None:
    code = f"import os\n{ATTEMPTS[name]}\nprint('done')"
    result = run(python(code, cwd=str(place), out_of_reach=shut(place)))
    assert "done" not in result.stdout.text
    assert (
        "PermissionError" in result.stderr.text
        or "CalledProcessError" in result.stderr.text
        or "OSError" in (result.stderr.text)
    ), result.stderr.text
    assert (place / "store" / "key").read_text() == "key"
    assert (place / "policy.json").read_text() == "policy"


@pytest.mark.parametrize("name", sorted(set(ATTEMPTS) - {"run from it"}))
def test_it_could_if_it_were_not_out_of_reach(place: Path, name: str) -> None:
    code = f"import os\n{ATTEMPTS[name]}\nprint('done')"
    assert "done" in run(python(code, cwd=str(place))).stdout.text


def test_it_can_work_beside_it(place: Path) -> None:
    code = (
        "import os; os.chdir('work'); open('new', 'w').write(open('file').read()); os.rename('new', 'newer')\n"
        "os.mkdir('d'); os.rename('newer', 'd/newer'); os.symlink('d', 'l'); print(open('l/newer').read())\n"
        "open('/dev/null', 'w').write('x'); print(sorted(os.listdir('.')))"
    )
    result = run(python(code, cwd=str(place), out_of_reach=shut(place)))
    assert result.stdout.text == "work\n['d', 'file', 'l']\n"
    assert result.landlock_abi > 0


def test_what_appears_on_the_way_after_the_start_is_out_of_reach(place: Path) -> None:
    with lifeline(place) as line:
        code = (
            "import os, sys\nos.write(os.open(sys.argv[1], os.O_WRONLY), b'here\\n')\n"
            "sys.stdin.read()\nprint(os.path.exists('later'))\nopen('later').read()"
        )
        made = python(code, line.path, cwd=str(place), out_of_reach=shut(place), stdin="x")

        def stop() -> None:
            line.lines(1)

        (place / "later").write_text("was there")
        assert "PermissionError" not in run(made, stop).stderr.text
        (place / "later").unlink()
        waiting = code.replace("sys.stdin.read()", "\nwhile not os.path.exists('later'): pass")
        made = python(waiting, line.path, cwd=str(place), out_of_reach=shut(place))
        later = iter([None])

        def appear() -> None:
            line.lines(2)
            for _ in later:
                (place / "later").write_text("new")

        result = run(made, appear)
        assert result.stdout.text == "True\n"
        assert "PermissionError" in result.stderr.text


def test_a_program_that_is_out_of_reach_does_not_run(place: Path) -> None:
    path = place / "store" / "program"
    path.write_bytes(Path(ECHO).read_bytes())
    path.chmod(0o755)
    with pytest.raises(DataError, match="cannot be run: Permission denied"):
        run(order(str(path), "hi", out_of_reach=shut(place)))


LOOKS = {
    "environment": "open(p + 'environ').read()",
    "memory": "open(p + 'mem', 'rb')",
    "maps": "open(p + 'maps').read()",
    "open files": "os.readlink(p + 'fd/0')",
    "open files, by opening one": "open(p + 'fd/0')",
    "folder": "os.listdir(p + 'cwd/')",
}


@pytest.mark.parametrize("name", LOOKS)
def test_it_cannot_look_into_its_driver(place: Path, name: str) -> None:
    code = f"import os, sys; p = '/proc/' + sys.argv[1] + '/'; {LOOKS[name]}"
    me = str(os.getpid())
    assert "PermissionError" in run(python(code, me, out_of_reach=shut(place))).stderr.text
    assert run(python(code, "self", cwd="/etc", out_of_reach=shut(place))).exit_code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities")
def test_root_loses_what_leads_around_it(place: Path) -> None:
    looks = [order(CAT, "/proc/self/status", out_of_reach=out) for out in (shut(place), [])]
    looks.append(order(CAT, "/proc/self/status", isolation="process"))
    held = []
    for made in looks:
        status = dict(line.split(":\t", 1) for line in run(made).stdout.text.splitlines() if ":\t" in line)
        held.append({n for n in range(64) if int(status["CapEff"], 16) >> n & 1})
    around = {2, 16, 17, 19, 21, 22, 27, 32, 33, 38, 39, 40}
    assert [one & around for one in held[:2]] == [set(), set()]
    assert held[2] - around == held[0] > {0, 1, 5, 6, 7}  # root all the same: owner, rights, kill, identity


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could read a disk")
def test_root_reads_no_disk(place: Path) -> None:
    disks = [f"/dev/{name}" for name in os.listdir("/dev") if stat.S_ISBLK(os.stat(f"/dev/{name}").st_mode)]
    if not disks:
        pytest.skip("this machine shows no disks")
    code = f"open({disks[0]!r}, 'rb').read(1)"
    assert "PermissionError" in run(python(code, out_of_reach=shut(place))).stderr.text


def test_it_cannot_signal_its_supervisor_nor_its_driver(place: Path) -> None:
    code = "import os, sys\nfor pid in (os.getppid(), int(sys.argv[1])):\n    try: os.kill(pid, 0)\n"
    code += "    except PermissionError: print('refused')\n"
    result = run(python(code, str(os.getpid()), out_of_reach=shut(place)))
    if result.landlock_abi < 6:
        pytest.skip("this kernel's Landlock does not know signals")
    assert result.stdout.text == "refused\nrefused\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_it_makes_no_device(place: Path) -> None:
    code = "import os, stat; os.mknod('work/disk', stat.S_IFBLK | 0o600, os.makedev(254, 0))"
    assert "PermissionError" in run(python(code, cwd=str(place), out_of_reach=shut(place))).stderr.text


def test_isolation_process_keeps_nothing_out(place: Path) -> None:
    made = order(CAT, str(place / "store" / "key"), out_of_reach=shut(place), isolation="process")
    result = run(made)
    assert (result.stdout.text, result.landlock_abi) == ("key", 0)


WITHOUT = (
    "import sys\nfrom tests.tools.running import order, run\n"
    f"fields = eval(sys.argv[1])\nr = run(order({CAT!r}, '/proc/self/comm', **fields))\n"
    "print(r.exit_code, r.landlock_abi)\n"
)


@pytest.mark.parametrize(
    ("fields", "runs"),
    [
        ({"out_of_reach": ["/srv/none"]}, False),
        ({"out_of_reach": ["/srv/none"], "isolation": "process"}, True),
        ({}, True),
    ],
)
def test_without_landlock(fields: dict[str, Any], runs: bool) -> None:
    command = [sys.executable, "-m", "tests.old_kernel", ",".join(LANDLOCK), sys.executable, "-c", WITHOUT]
    ran = subprocess.run([*command, repr(fields)], capture_output=True, text=True, timeout=60, check=False)
    if runs:
        assert ran.stdout == "0 0\n", ran.stderr
    else:
        assert UnavailableError.__name__ in ran.stderr
        assert "no Landlock" in ran.stderr


def test_it_starts_soon() -> None:
    took = []
    for _ in range(10):
        started = time.monotonic()
        run(order(ECHO))
        took.append(time.monotonic() - started)
    assert min(took) < 0.25  # some 20 ms on a machine with nothing else to do
