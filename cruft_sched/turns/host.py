"""What agent code can reach of the world, in either language: JSON text over one pipe, and nothing else.

A runtime (javascript.py, …) gives these methods to the agent under their public names. The driver checks every
message again, so nothing here is trusted; it is here so that the agent is told at once, and in its own language.
"""

from __future__ import annotations

import os

from cruft_sched.turns.wire import DRIVER_GONE, EMPTY_STATE_BYTES, entry_bytes

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


def read_frame(pipe: int) -> bytes:
    """The next frame that the driver sends. Raises OSError where the driver has gone."""
    data = b""
    while b"\n" not in data:
        data += _read(pipe)
    length, _, data = data.partition(b"\n")
    parts = [data]
    missing = int(length) - len(data)
    while missing > 0:
        parts.append(_read(pipe))
        missing -= len(parts[-1])
    return b"".join(parts)


def _read(pipe: int) -> bytes:
    data = os.read(pipe, 64 << 10)  # a pipe holds no more, and a larger buffer is a mapping of its own each time
    if not data:
        raise OSError("the driver has gone")
    return data


class Host:
    """One turn's side of the protocol. Every argument and every result is JSON text."""

    def __init__(self, answers: int, pipe: int, limits: dict[str, int], state: dict[str, str]) -> None:
        """The driver's answers come in on `answers`, and messages go out on `pipe`; `limits` are the policy's
        budgets; `state` maps each key, as JSON, to its value, as JSON."""
        self._answers = answers
        self.before_end: Callable[[], None] = lambda: None
        self._pipe = pipe
        self._limits = limits
        self._state = state
        self._state_bytes = EMPTY_STATE_BYTES + sum(_size(key, value) for key, value in state.items())

    def ready(self, level: dict[str, str | int]) -> None:
        """Say that agent code is about to run, and how far the process is confined; and wait for leave to do so."""
        fields = [
            f'"{name}":{value}' if isinstance(value, int) else f'"{name}":"{value}"' for name, value in level.items()
        ]
        self._send(f'{{"type":"ready","level":{{{",".join(fields)}}}}}')
        try:
            read_frame(self._answers)
        except OSError:
            os._exit(DRIVER_GONE)

    def emit(self, event: str) -> None:
        """Put one event into the audit log."""
        self._within("max_event_bytes", len(event.encode()))
        self._send(f'{{"type":"emit","event":{event}}}')

    def note(self, value: str) -> None:
        """Put a remark into the audit log."""
        self._within("max_event_bytes", len(value.encode()))
        self._send(f'{{"type":"note","note":{value}}}')

    def call_tool(self, tool: str, args: str, timeout_ms: str) -> str:
        """Have a tool called, and wait for it (`timeout_ms` may be null). The answer is an object of `result` or
        `error`."""
        self._send(f'{{"type":"tool_call","tool":{tool},"args":{args},"timeout_ms":{timeout_ms}}}')
        try:
            return read_frame(self._answers).decode()
        except OSError:
            os._exit(DRIVER_GONE)

    def state_get(self, key: str) -> str | None:
        return self._state.get(key)

    def state_keys(self) -> str:
        return f"[{','.join(self._state)}]"

    def state_set(self, key: str, value: str) -> bool:
        """Keep a value for the turns to come. False, and nothing stored, where the state would grow too large."""
        old = _size(key, self._state[key]) if key in self._state else 0
        total = self._state_bytes - old + _size(key, value)
        if total > self._limits["max_state_bytes"]:
            self._refuse("max_state_bytes", total)
            return False
        self._state[key], self._state_bytes = value, total
        self._send(f'{{"type":"state_set","key":{key},"value":{value}}}')
        return True

    def state_delete(self, key: str) -> bool:
        """Forget a value. False where there was none."""
        value = self._state.pop(key, None)
        if value is None:
            return False
        self._state_bytes -= _size(key, value)
        self._send(f'{{"type":"state_delete","key":{key}}}')
        return True

    def output(self, stream: str, text: str) -> None:
        """Give what the agent printed."""
        self._send(f'{{"type":"output","stream":"{stream}","text":{text}}}')

    def import_denial(self, specifier: str) -> None:
        """Tell of an import that the policy does not admit."""
        self._send(f'{{"type":"import_denial","specifier":{specifier}}}')

    def state_reset(self) -> None:
        """Forget every value."""
        self._state.clear()
        self._state_bytes = EMPTY_STATE_BYTES
        self._send('{"type":"state_reset"}')

    def fits(self, value: str) -> bool:
        """Whether a tool's arguments, or what a person is shown, are within `max_tool_arg_bytes`."""
        size = len(value.encode())
        if size > self._limits["max_tool_arg_bytes"]:
            self._refuse("max_tool_arg_bytes", size)
            return False
        return True

    def suspend(self, request: str) -> NoReturn:
        """Ask to wait. The process ends here, inside the call: no `catch` and no `finally` of the agent runs."""
        self._end(f'{{"type":"suspend","request":{request}}}', 0)

    def complete(self, result: str) -> NoReturn:
        """The agent has come to its end."""
        self._end(f'{{"type":"complete","result":{result}}}', 0)

    def fail(self, error: str) -> NoReturn:
        """The agent threw. `error` is an object of `name`, `message` and `stack`."""
        self._end(f'{{"type":"fail","error":{error}}}', 1)

    def over(self, budget: str, attempted: int) -> NoReturn:
        """The turn ends, since it has used up a budget. Nothing of the agent runs after this."""
        self._end(f'{{"type":"over","budget":"{budget}","attempted":{attempted}}}', 1)

    def out_of_memory(self) -> NoReturn:
        """An allocation failed, and the agent did not catch that. It wanted one MiB more than it may have, at least."""
        self.over("max_rss_mb", self._limits["max_rss_mb"] + 1)

    def _within(self, budget: str, attempted: int) -> None:
        if attempted > self._limits[budget]:
            self.over(budget, attempted)

    def _refuse(self, budget: str, attempted: int) -> None:
        """Tell of a budget that the agent gets an exception for."""
        self._send(f'{{"type":"refused","budget":"{budget}","attempted":{attempted}}}')

    def _end(self, message: str, exit_code: int) -> NoReturn:
        self.before_end()
        self._send(message)
        os._exit(exit_code)

    def _send(self, message: str) -> None:
        rest = memoryview(message.encode() + b"\n")
        try:
            while rest:
                rest = rest[os.write(self._pipe, rest) :]
        except OSError:
            os._exit(DRIVER_GONE)


def _size(key: str, value: str) -> int:
    return entry_bytes(key.encode(), value.encode())
