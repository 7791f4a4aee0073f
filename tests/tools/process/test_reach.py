"""What is out of a program's reach: the store, the policy, the driver; and what it can do all the same."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cruft_sched.errors import DataError, UnavailableError
from tests.old_kernel import LANDLOCK
from tests.tools.process.running import lifeline, order, python, run

ECHO, CAT = "/bin/echo", "/bin/cat"


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
    "import sys\nfrom tests.tools.process.running import order, run\n"
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
