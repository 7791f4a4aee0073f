"""An interpreter, with this package, that every user of the machine can run: the one that runs us, or a copy."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NOBODY = 65534
_PACKAGES = ("cruft_sched", "msgspec", "blake3", "filelock", "click", "rich", "pygments", "markdown_it", "mdurl")
_NOT_COPIED = shutil.ignore_patterns("site-packages", "test", "tests", "idlelib", "lib2to3", "ensurepip", "tkinter")


@dataclass(frozen=True)
class Python:
    """An interpreter, and the environment that lets it import what it needs."""

    executable: str
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, as_nobody: bool = False, **more: Any) -> subprocess.CompletedProcess[bytes]:
        """Run it with these arguments; as nobody, only root can."""
        who: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": ()} if as_nobody else {}
        environment = {"PATH": os.environ["PATH"], **self.environment}
        options: dict[str, Any] = {"capture_output": True, "cwd": "/", "env": environment, "check": False}
        return subprocess.run([self.executable, *arguments], **(options | who | more))


@contextmanager
def readable_python() -> Iterator[Python]:
    """An interpreter for everybody. Where ours lies in somebody's home, its parts are copied for a while."""
    if _everybody_can_run_ours():
        yield Python(sys.executable)
        return
    folder = Path(tempfile.mkdtemp(prefix="cruft-readable-"))
    folder.chmod(0o755)
    try:
        yield _copy(folder)
    finally:
        shutil.rmtree(folder)


def _everybody_can_run_ours() -> bool:
    if os.geteuid() != 0:
        return True  # a user without privileges can
    with suppress(PermissionError):
        return Python(sys.executable).run("-c", "import cruft_sched", as_nobody=True).returncode == 0
    return False


def _copy(folder: Path) -> Python:
    library = Path(sysconfig.get_path("stdlib"))
    executable = folder / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    executable.parent.mkdir()
    shutil.copy(os.path.realpath(sys.executable), executable)
    shutil.copytree(library, folder / "lib" / library.name, ignore=_NOT_COPIED, symlinks=True)
    packages = folder / "packages"
    packages.mkdir()
    for name in (*_PACKAGES, "_quickjs"):
        _copy_package(name, packages)
    python = Python(str(executable), {"PYTHONPATH": str(packages)})
    tried = python.run("-c", "import cruft_sched", as_nobody=True)
    if tried.returncode:  # a Python that is built around a shared library, at a place of its own
        pytest.skip(f"only root can run this Python: {tried.stderr.decode().strip()}")
    return python


def _copy_package(name: str, to: Path) -> None:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ImportError(name)
    origin = Path(spec.origin)
    if origin.name == "__init__.py":
        shutil.copytree(origin.parent, to / name)
    else:
        shutil.copy(origin, to)
