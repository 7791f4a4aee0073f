"""However a program ends, and whatever it does against that, none of its processes is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cruft_sched.errors import ChangedError, SystemFailedError
from cruft_sched.tools.process.run import Signal
from tests.tools.process.running import TREE, lifeline, order, python, run

ECHO, CAT, SLEEP = "/bin/echo", "/bin/cat", "/bin/sleep"


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
    "from tests.tools.process.running import TREE, python, run\n"
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
            assert "cruft_sched.tools.process.supervisor" in Path(f"/proc/{supervisor}/cmdline").read_text()
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
        texts[n] = run(order(CAT, stdin=f"{n}" * 100_000, max_output_bytes=1 << 20)).stdout.text

    threads = [threading.Thread(target=one, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == {n: f"{n}" * 100_000 for n in range(6)}
