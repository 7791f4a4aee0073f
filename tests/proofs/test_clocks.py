"""A clock that is wrong: set back by an hour, or a year ahead, at each moment that a command looks at it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.proofs.scenarios import JS_AGENT, PY_AGENT, SCENARIOS, TICK, Scenario
from tests.proofs.world import World, zygote

HOUR = 3_600_000
YEAR = 365 * 24 * HOUR
JUMPS = {"back": -HOUR, "ahead": YEAR, "a night's sleep": 8 * HOUR}


def test_a_jump_at_every_reading(
    name: str, language: str, tmp_path: Path, some: Callable[[list[tuple[int, int]]], list[tuple[int, int]]]
) -> None:
    """Afterwards it is right again, or as late as it was: a deadline set by a clock that is ahead is that late, too."""
    with zygote() as forked:
        world = World(tmp_path, SCENARIOS[name], language, forked)
        undisturbed = world.attack()
        every = [(reading, off) for reading in range(undisturbed.readings) for off in JUMPS.values()]
        for reading, off in some(every):
            done = world.attack(clock=[[reading, off]])
            assert done.code in (0, 70, 75), (reading, off, done)
            assert done.err.count("\n") <= 1, done
            if SCENARIOS[name].command == TICK and off > 0:  # set right, for one tick, and then as late as it was
                assert world.run(TICK, "job").code in (0, 70, 75)
            world.check(world.finish(clock=[[0, max(0, off)]]))


NAPS = {"javascript": "scheduler.sleep(3600000)", "python": "scheduler.sleep(3600000)"}


@pytest.mark.parametrize("language", NAPS)
def test_a_deadline_stays_where_it_is(language: str, tmp_path: Path, record_property: Callable[..., None]) -> None:
    with zygote() as forked:
        scenario = Scenario(TICK, ())
        world = World(tmp_path, scenario, language, forked)
        agent, source = ("agent.js", JS_AGENT) if language == "javascript" else ("agent.py", PY_AGENT)
        (tmp_path / "then" / agent).write_text(source % (0, NAPS[language]))
        world.restore()
        start = ("start", "--policy", "{policy}", "--store", "{store}", "--job-id", "{job}")
        assert world.run(start, "job").code == 0
        assert world.run(TICK, "job").code == 0
        asleep = world.store.load("job")
        for off in (-YEAR, -HOUR, 0, HOUR // 2):
            done = world.run(TICK, "job", clock=[[0, off]])
            assert (done.code, '"ready":false' in done.out) == (0, True), done
            assert world.store.load("job") == asleep
        assert world.run(TICK, "job", clock=[[0, HOUR], [3, -YEAR]]).code == 0  # it fires, and the clock goes back
        job = world.store.load("job")
        world.check([job])
        assert [entry.event for entry in job.timeline if entry.clock_ms is not None], "it does not say so"
        assert all(entry.clock_ms is None or entry.clock_ms < entry.at_ms for entry in job.timeline)
        record_property("cases", 5)
