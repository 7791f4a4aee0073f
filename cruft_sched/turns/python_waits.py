"""The waits of a Python agent: `scheduler`, its options, and the times it takes."""

from __future__ import annotations

import time

from cruft_sched.turns.python_values import to_json

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from cruft_sched.turns.host import Host
    from cruft_sched.turns.python import Closing

_TEN_YEARS_MS = 315_576_000_000
_MAX_ATTEMPTS = 100


def scheduler(host: Host, closing: Closing) -> object:
    """The waits. None of the functions returns: the process ends inside the call."""

    def sleep(ms: float) -> NoReturn:
        """Go on after so many milliseconds."""
        host.suspend(_object(kind='"sleep"', delay_ms=_milliseconds("scheduler.sleep", ms, "the time")))

    def sleep_until(when: object) -> NoReturn:
        """Go on at an instant: ISO 8601, epoch milliseconds, or a datetime; in UTC where it does not say."""
        host.suspend(_object(kind='"sleep_until"', deadline_ms=_instant(when)))

    def call_tool(name: str, args: object = None, options: object = None, **keywords: object) -> NoReturn:
        """Go on with the outcome of a durable tool. Options, in a dict or as keywords: timeout_ms, retry (a dict of
        max_attempts and backoff_ms)."""
        call = "scheduler.call_tool"
        given = options_of(call, options, keywords, ("timeout_ms", "retry"))
        request = {"kind": '"tool"', "tool": name_of(call, name, "the tool")}
        request["args"] = bounded(host, args, f"{call}: args")
        if "retry" in given:
            request["retry"] = _retry_of(call, given["retry"])
        host.suspend(_object(**request, **timeout_of(call, given)))

    def wait_for_input(kind: str, payload: object = None, options: object = None, **keywords: object) -> NoReturn:
        """Go on with a person's answer. Options, in a dict or as keywords: schema, timeout_ms, on_timeout."""
        call = "scheduler.wait_for_input"
        given = options_of(call, options, keywords, ("schema", "timeout_ms", "on_timeout"))
        request = {"kind": '"input"', "input_kind": name_of(call, kind, "the kind")}
        request["payload"] = bounded(host, payload, f"{call}: the payload")
        if "schema" in given:
            request["schema"] = bounded(host, given["schema"], f"{call}: the schema")
        host.suspend(_object(**request, **timeout_of(call, given)))

    waits: dict[str, Callable[..., NoReturn]] = {"sleep": sleep, "sleepUntil": sleep_until, "sleep_until": sleep_until}
    waits |= {"callTool": call_tool, "call_tool": call_tool}
    waits |= {"waitForInput": wait_for_input, "wait_for_input": wait_for_input}
    return closing.frozen("scheduler", waits)


def options_of(call: str, given: object, keywords: dict[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """The options of a call that are given, in a dict or as keywords. None is not given."""
    if given is not None and not isinstance(given, dict):
        raise TypeError(f"{call}: the options are a dict")
    options: dict[str, Any] = {}
    for name, value in [*(given or {}).items(), *keywords.items()]:
        if name not in known:
            raise TypeError(f"{call}: unknown option {name}")
        if value is not None and name in options:
            raise TypeError(f"{call}: the option {name} is given twice")
        if value is not None:
            options[name] = value
    return options


def _retry_of(call: str, given: object) -> str:
    """How often a call is made, and how long to wait in between, as a field of its request."""
    options = options_of(f"{call}: retry", given, {}, ("max_attempts", "backoff_ms"))
    attempts = options.get("max_attempts")
    if not isinstance(attempts, int) or isinstance(attempts, bool) or not 1 <= attempts <= _MAX_ATTEMPTS:
        raise TypeError(f"{call}: retry.max_attempts is a whole number from 1 to {_MAX_ATTEMPTS}")
    fields = {"max_attempts": str(attempts)}
    if "backoff_ms" in options:
        fields["backoff_ms"] = _milliseconds(call, options["backoff_ms"], "retry.backoff_ms")
    return _object(**fields)


def timeout_of(call: str, options: dict[str, Any]) -> dict[str, str]:
    """The options that bound a wait, as fields of its request."""
    fields = {}
    if "timeout_ms" in options:
        fields["timeout_ms"] = _milliseconds(call, options["timeout_ms"], "timeout_ms")
    if "on_timeout" in options:
        if options["on_timeout"] not in ("resume", "fail"):
            raise TypeError(f'{call}: on_timeout is "resume" or "fail"')
        if not fields:
            raise TypeError(f"{call}: on_timeout goes with timeout_ms")
        fields["on_timeout"] = to_json(options["on_timeout"], f"{call}: on_timeout")
    return fields


def _milliseconds(call: str, ms: object, what: str) -> str:
    return _whole(ms, _TEN_YEARS_MS, f"{call}: {what} is a finite number of milliseconds from 0 to {_TEN_YEARS_MS}")


def _instant(when: object) -> str:
    at = when if isinstance(when, int | float) else _epoch_ms(when)
    what = "give an ISO 8601 time, a datetime, or epoch milliseconds, at most ten years ahead"
    return _whole(at, time.time() * 1000 + _TEN_YEARS_MS, f"scheduler.sleep_until: {what}")


def _whole(number: object, most: float, otherwise: str) -> str:
    """A number from 0 to `most`, rounded up, as JSON. Any other, and what is no number, is a TypeError."""
    if not isinstance(number, int | float) or isinstance(number, bool) or not 0 <= number <= most:
        raise TypeError(otherwise)
    return str(int(-(-number // 1)))


def _epoch_ms(when: object) -> int | None:
    """The instant that a text or a datetime gives; None where it gives none."""
    import re  # these two here, since few agents wait for an instant, and they cost as much as all the rest
    from datetime import UTC, datetime, timedelta

    if isinstance(when, str):
        # What prelude.js takes, and no more: Python's parser takes "20300102", "2030-W01" and any separator besides.
        iso = r"\d{4}-\d\d-\d\d(T([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)?)?"
        try:
            when = datetime.fromisoformat(when) if re.fullmatch(iso, when, re.ASCII) else None
        except ValueError:  # no such day
            return None
    if not isinstance(when, datetime):
        return None
    aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def name_of(call: str, value: object, what: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= 200:
        raise TypeError(f"{call}: {what} is a str of 1 to 200 characters")
    return to_json(value, f"{call}: {what}")


def bounded(host: Host, value: object, what: str) -> str:
    text = to_json(value, what)
    if not host.fits(text):
        raise ValueError(f"{what} would exceed the budget max_tool_arg_bytes")
    return text


def _object(**fields: str) -> str:
    """A JSON object of fields that are JSON already."""
    return "{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}"
