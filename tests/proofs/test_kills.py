"""Kill each command just before and just after each of its operations on the disk; then go on with fresh processes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

from tests.proofs.scenarios import SCENARIOS
from tests.proofs.world import World, zygote

KILLS = ("kill", "kill-after")
SIGNALS = {signal.SIGINT: (130, "interrupted"), signal.SIGTERM: (143, "terminated")}


def test_a_kill_at_every_operation(
    name: str, language: str, tmp_path: Path, some: Callable[[list[tuple[str, int]]], list[tuple[str, int]]]
) -> None:
    with zygote() as forked:
        world = World(tmp_path, SCENARIOS[name], language, forked)
        undisturbed = world.attack()
        assert undisturbed.code in (0, 70), undisturbed.err
        world.check(world.finish())
        every = [(what, number) for what in KILLS for number in range(len(undisturbed.operations))]
        for what, number in some(every):
            done = world.attack({"what": what, "number": number})
            assert done.code == -9, (what, number, done)
            world.check(world.finish())


def test_a_signal_at_every_operation(
    name: str, language: str, tmp_path: Path, some: Callable[[list[tuple[int, int]]], list[tuple[int, int]]]
) -> None:
    """Ctrl-C and SIGTERM end the command, unless it has done what it was told; the turn is not counted."""
    with zygote() as forked:
        world = World(tmp_path, SCENARIOS[name], language, forked)
        undisturbed = world.attack()
        every = [(int(number), at) for number in SIGNALS for at in range(len(undisturbed.operations))]
        for number, at in some(every):
            done = world.attack({"what": "signal", "number": at, "code": number})
            code, said = SIGNALS[signal.Signals(number)]
            if done.code != undisturbed.code:
                assert done.code == code, (number, at, done)
                assert said in done.err, (number, at, done)
            assert done.err.count("\n") <= 1, (number, at, done)
            jobs = world.finish()
            assert all(job.interruptions == 0 for job in jobs if job.status == "completed")
            world.check(jobs)
