"""Kill each command just before and just after each of its operations on the disk; then go on with fresh processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.proofs.scenarios import SCENARIOS
from tests.proofs.world import World, zygote

KILLS = ("kill", "kill-after")


@pytest.mark.parametrize("language", ["javascript", "python"])
@pytest.mark.parametrize("name", SCENARIOS)
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
