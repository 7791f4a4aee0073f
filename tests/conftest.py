"""Fixtures for every test, and hypothesis without a clock: a slow machine is no fault."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import guarantees
from tests.support import Project

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--exhaustive", action="store_true", help="break every command in every way, not only in some")
    parser.addoption("--count", action="store_true", help="write the numbers of cases into docs/guarantees.md")


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a background job of a script: so would our children
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--count") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Counter(config))


class _Counter:
    """Counts the cases of each test that passes: those that it counted itself, else one."""

    def __init__(self, config: pytest.Config) -> None:
        self._counts: dict[str, int] = {}
        self._exhaustive = bool(config.getoption("--exhaustive"))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._counts[report.nodeid] = int(str(dict(report.user_properties).get("cases", 1)))

    def pytest_sessionfinish(self) -> None:
        text = guarantees.PAGE.read_text(encoding="utf-8")
        counted = guarantees.recounted(text, self._counts, exhaustive=self._exhaustive)
        guarantees.PAGE.write_text(counted, encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose agent sleeps once."""
    return Project(tmp_path / "project")
