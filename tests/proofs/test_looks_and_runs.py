"""The commands that no job needs to come to its end: those that only look, and a plain run with a session."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.proofs.scenarios import SCENARIOS, STORE, Scenario
from tests.proofs.test_faults import ERRORS, check_code, check_sentences, ways
from tests.proofs.test_kills import KILLS
from tests.proofs.world import Done, World, zygote

Some = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]

LOOKS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "status": (("schedule",), ("status", "{job}", *STORE)),
    "list": (("schedule",), ("list", *STORE)),
    "replay": (("schedule",), ("replay", "{job}", *STORE)),
    "token": (("schedule",), ("token", "{job}", *STORE)),
    "the replay of a log": ((), ("replay", "{log}", *STORE)),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_fault_in_a_look_changes_nothing(look: str, tmp_path: Path, some: Some) -> None:
    group, arguments = LOOKS[look]
    with zygote() as forked:
        world = World(tmp_path, SCENARIOS["an answer"], "javascript", forked)
        world.restore()
        before = everything(tmp_path / "now")
        undisturbed = world.run(arguments, "job", group=group)
        assert (undisturbed.code, undisturbed.err) == (0, "")
        for fault in some(ways(undisturbed.operations, ERRORS["javascript"])):
            done = world.run(arguments, "job", group=group, fault=fault)
            if done.code == 0 and not done.err:
                assert done.out == undisturbed.out, (fault, done)
            else:  # a job that cannot be read is left out of a list, and named; a log is then not as it was committed
                assert done.code in (0, 65, 74), (fault, done)
                assert done.err.count("\n") == 1, (fault, done)
                assert "bug" not in done.err, (fault, done)
            assert everything(tmp_path / "now") == before


RUN = ("run", "--policy", "{policy}", "--session-file", "{session}")
COUNTING = {
    "javascript": 'const n = (state.get("n") ?? 0) + 1; state.set("n", n); emit({kind: "run"}); close(n)',
    "python": 'n = state.get("n", 0) + 1\nstate.set("n", n)\nemit({"kind": "run"})\nclose(n)',
}


@pytest.mark.parametrize("language", COUNTING)
def test_a_kill_or_a_fault_in_a_run_leaves_a_session_of_before_or_after(
    language: str, tmp_path: Path, some: Some
) -> None:
    with zygote() as forked:
        world = World(tmp_path, Scenario(RUN), language, forked)
        agent = "agent.js" if language == "javascript" else "agent.py"
        (tmp_path / "then" / agent).write_text(COUNTING[language])
        world.restore()
        assert world.run(RUN, "", group=()).code == 0
        undisturbed = world.run(RUN, "", group=())
        numbers = range(len(undisturbed.operations))
        kills = [{"what": what, "number": number} for what in KILLS for number in numbers]
        counted = 2
        for fault in some([*kills, *ways(undisturbed.operations, ERRORS[language])]):
            done = world.run(RUN, "", group=(), fault=fault)
            now = json.loads((tmp_path / "now" / "session.json").read_text())["state"]["n"]
            if fault["what"] in KILLS:
                assert done.code == -9, (fault, done)
                assert now in (counted, counted + 1), (fault, done)
            elif done.code == 0:
                assert now == counted + 1, (fault, done)
            else:
                check_run_failed(done, fault)
                assert now in (counted, counted + 1), (fault, done)
            counted = now
            again = world.run(RUN, "", group=())
            assert (again.code, json.loads(again.out)["result"]) == (0, counted + 1), again
            counted += 1
            assert world.run(("replay", "{log}"), "", group=()).code == 0, fault
        left = {path.name for path in (tmp_path / "now").iterdir()}
        assert left == {agent, "agent-policy.json", "audit.jsonl", "session.json", ".session.json.lock"}


def check_run_failed(done: Done, fault: dict[str, Any]) -> None:
    assert done.out == "", (fault, done)
    assert done.err.count("\n") == 1, (fault, done)
    if fault["code"] == errno.EACCES and done.code == 65:  # the paths are the user's: one that may not be made is wrong
        assert "ermission" in done.err or "cannot be read" in done.err, (fault, done)
    else:
        check_code(done, fault)
        check_sentences(done, fault, "cruft agent run: ")


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
