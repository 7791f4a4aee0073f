"""Jobs that wait for something, for the tests beside this file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cruft_sched.ops.reports import Moved, Report
from cruft_sched.ops.show_token import show_token
from cruft_sched.ops.submit_input import submit_input
from cruft_sched.ops.tick import tick
from tests.support import Project

CALL = "const r = context.scheduler_resume; if (!r) scheduler.callTool(%s); emit({seen: r}); close(r)"
ASK = "const r = context.scheduler_resume; if (!r) scheduler.waitForInput(%s); emit({seen: r}); close(r)"


def run(project: Project) -> Moved:
    report = tick(project.store, "job", project.clock)
    assert isinstance(report, Moved)
    return report


def calling(folder: Path, call: str, **policy: Any) -> Project:
    """A project whose job waits for a tool."""
    project = Project(folder, CALL % call, **({"tools": ["echo", "fail", "slow"]} | policy))
    project.start()
    assert run(project).status == "awaiting_tool"
    return project


def asking(folder: Path, ask: str = '"approval", {subject: "deploy"}', **policy: Any) -> Project:
    """A project whose job waits for a person."""
    project = Project(folder, ASK % ask, **policy)
    project.start()
    assert run(project).status == "awaiting_input"
    return project


def answer(project: Project, value: str = '{"approved": true}', **more: Any) -> Report:
    token = more.pop("token", None) or show_token(project.store, "job").token
    return submit_input(project.store, "job", token, value.encode(), project.clock, **more)


def seen(project: Project) -> Any:
    """What the resumed turn received."""
    return project.events()[-1]["seen"]
