"""The JavaScript runtime of a turn: QuickJS, a fresh context, and the globals that prelude.js makes."""

from __future__ import annotations

import os
import resource
from _json import encode_basestring_ascii

import _quickjs  # the C extension itself: the `quickjs` package over it costs 25 ms and a thread

from cruft_sched.turns import rejections
from cruft_sched.turns.host import Host
from cruft_sched.turns.javascript_modules import ModuleLoader
from cruft_sched.turns.steps import count_steps

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from cruft_sched.turns.program import Program

_MIB = 1 << 20
_STACK_BYTES = 1 * _MIB
_CONTROLS = ("watch", "broken", "finish")
_CALLS = (
    *("emit", "note", "call_tool", "state_get", "state_keys", "state_set", "state_delete", "state_reset"),
    *("fits", "suspend", "complete", "fail", "out_of_memory"),
)


def prepare(host: Host, program: Program) -> Callable[[], NoReturn]:
    """Everything up to, and without, the agent's first line. The function that is returned runs the agent."""
    engine = _quickjs.Context()
    engine.set_memory_limit(program.limits["max_rss_mb"] * _MIB)
    engine.set_max_stack_size(min(_STACK_BYTES, _half_of_our_stack()))
    for name in _CALLS:
        engine.add_callable(f"__{name}", getattr(host, name))
    calls = "[" + ",".join(f'"{name}"' for name in _CALLS) + "]"
    control = engine.eval(_read_prelude())(calls, program.context, program.scheduled)
    watch, broken, finish = map(engine.eval("(control) => (name) => control[name]")(control), _CONTROLS)

    unhandled = rejections.watch(engine)
    first = [f"import {encode_basestring_ascii(program.entry)}"] if program.entry else []
    loader = _admit(engine, host, program.modules)
    counter = _count_steps(engine, host, program.limits)

    def run() -> NoReturn:
        _kept = loader, counter  # the engine calls them
        try:
            microtasks = 0
            for source in (*first, program.source):
                watch(engine.module(source))
                while engine.execute_pending_job():
                    microtasks += 1
                    if microtasks > program.limits["max_microtasks"]:
                        host.over("max_microtasks", microtasks)
        except _quickjs.JSException as error:  # it does not compile, or the engine itself gave up
            broken(*_parts(str(error)))
        reason = unhandled()
        if reason is not None:
            broken("UnhandledRejection", f"a promise was rejected, and nobody handled it: {reason}"[:2000], "")
        finish()
        os._exit(1)

    return run


def _admit(engine: _quickjs.Context, host: Host, modules: dict[str, str]) -> ModuleLoader | None:
    """Give the agent the modules that are admitted. Without any, an engine that cannot be told refuses every import."""
    try:
        return ModuleLoader(engine, host, modules)
    except (AttributeError, OSError, TypeError) as error:
        if modules:
            raise RuntimeError(f"this build of quickjs-ng cannot be given modules ({error})") from None
        return None


def _count_steps(engine: _quickjs.Context, host: Host, limits: dict[str, int]) -> object:
    """End the turn at `max_steps`, where the policy has it."""
    if "max_steps" not in limits:
        return None
    return count_steps(engine, limits["max_steps"], lambda steps: host.over("max_steps", steps))


def _half_of_our_stack() -> int:
    """Deep recursion must end in the engine's own error, before the process's stack does."""
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return _STACK_BYTES if soft == resource.RLIM_INFINITY else soft // 2


def _parts(text: str) -> tuple[str, str, str]:
    """Name, message and stack of an exception that the engine gives as one text. Where it is stands in the message."""
    first, _, stack = text.partition("\n")
    name, _, message = first.partition(": ")
    file, *place = stack.partition("\n")[0].strip().removeprefix("at ").rsplit(":", 2)
    if name == "SyntaxError" and len(place) == 2:
        message += f" ({'agent.js' if file == '<input>' else file}, line {place[0]}, column {place[1]})"
    return name, message, stack


def _read_prelude() -> str:
    with open(os.path.join(os.path.dirname(__file__), "prelude.js"), encoding="utf-8") as file:
        return file.read()
