"""Fixtures for every test, and hypothesis without a clock: a slow machine is no fault."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import Project

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose agent sleeps once."""
    return Project(tmp_path / "project")
