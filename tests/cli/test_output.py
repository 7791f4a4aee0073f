"""What people and programs get to see."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cruft_sched.cli.human import duration
from cruft_sched.cli.output import escape_json, plain
from tests.support import PROGRAM, Project, cruft, schedule

HOSTILE = "\x1b[31m\u202e\u2066\x9b\r\n\x07[bold]\u200b\U000e0041"


MARKS = ("\x1b[31m\u202e", "\u202e", "\u2066", "\x9b", "\x07", "\u200b", "\U000e0041")


@given(st.text())
def test_plain_text_is_printable_and_on_one_line(text: str) -> None:
    assert plain(text).isprintable()


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_escaped_json_is_the_same_json(value: object) -> None:
    data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()
    escaped = escape_json(data)
    assert json.loads(escaped) == json.loads(data)
    assert escaped.decode().isprintable()


@pytest.fixture
def hostile(tmp_path: Path) -> Project:
    """A job all of whose agent's texts try to control the terminal."""
    text = json.dumps(HOSTILE)
    project = Project(tmp_path, f"state.set({text}, {text}); throw Object.assign(new Error({text}), {{name: {text}}})")
    project.start(context=json.dumps({"text": HOSTILE}).encode(), labels={"k": HOSTILE})
    return project


def at_terminal(*arguments: str) -> bytes:
    """What a command writes to a terminal."""
    main, terminal = pty.openpty()
    with subprocess.Popen([PROGRAM, *arguments], stdin=terminal, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        seen = b""
        while True:
            try:
                more = os.read(main, 65536)
            except OSError:  # Linux says EIO when the other side is closed
                break
            if not more:
                break
            seen += more
        process.wait()
    os.close(main)
    return seen


@pytest.mark.parametrize("command", ["tick", "status", "replay", "list"])
def test_nothing_an_agent_wrote_reaches_a_terminal_as_control(hostile: Project, command: str) -> None:
    store = ["--store", hostile.root]
    if command != "tick":
        schedule("tick", "job", *store)
    seen = at_terminal("agent", "schedule", command, *([] if command == "list" else ["job"]), *store).decode()
    for mark in MARKS:
        assert mark not in seen
    assert "202e" in seen
    assert "[bold]" in "".join(seen.split())  # a long text is folded


def test_nor_does_it_on_any_other_surface(hostile: Project) -> None:
    store = ["--store", hostile.root]
    hostile.start("other", labels={"k": HOSTILE})
    surfaces = [
        ["agent", "run", "--policy", str(hostile.policy)],
        ["agent", "schedule", "tick", "--due", *store],
        ["agent", "schedule", "list", *store],
        ["agent", "schedule", "cancel", "waits", *store, "--reason", HOSTILE.replace("\0", "")],
        ["agent", "schedule", "replay", "waits", *store],
        ["agent", "schedule", "status", "waits", *store],
    ]
    hostile.agent.write_text(f"scheduler.callTool({json.dumps(HOSTILE)}, {json.dumps(HOSTILE)})")
    hostile.start("waits")
    surfaces.insert(0, ["agent", "schedule", "tick", "waits", *store])
    surfaces.insert(1, ["agent", "schedule", "tick", "waits", *store])  # refused: no such tool is granted
    for mode in ("human", "json"):
        for arguments in surfaces:
            seen = at_terminal(*arguments, "--output", mode).decode()
            for mark in MARKS:
                assert mark not in seen, arguments


def test_humans_see_sentences_and_tables_and_programs_json(project: Project) -> None:
    store = ["--store", project.root]
    start = ["start", "--policy", str(project.policy), *store]
    assert b"next: cruft agent schedule tick a" in at_terminal("agent", "schedule", *start, "--job-id", "a")
    assert schedule(*start, "--job-id", "b", "--output", "human").out.startswith("job b is created\nnext: ")
    assert b'{"type":"agent_scheduler_tick"' in at_terminal(
        "agent", "schedule", "tick", "a", *store, "--output", "json"
    )
    project.start("long", context=b'{"nap_ms": 259200000}')
    assert "job long is awaiting_timer until " in schedule("tick", "long", *store, "--output", "human").out
    assert "2 d from now" in schedule("tick", "long", *store, "--output", "human").out
    table = schedule("list", *store, "--output", "human").out.splitlines()
    assert table[0].split() == ["job", "status", "turns", "due", "labels"]
    assert [row.split()[0] for row in table[1:]] == ["a", "b", "long"]
    assert "turn_started" in schedule("replay", "a", *store, "--output", "human").out


def test_help_and_version() -> None:
    for arguments in ([], ["agent"], ["agent", "schedule"], ["agent", "schedule", "tick"]):
        ran = cruft(*arguments, "--help")
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith("Usage: cruft")
    assert cruft("--version").out.startswith("cruft-sched 0.")


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0 ms"), (999, "999 ms"), (1000, "1 s"), (3_600_000, "1 h"), (172_800_001, "2 d")]
)
def test_durations(ms: int, text: str) -> None:
    assert duration(ms) == text
