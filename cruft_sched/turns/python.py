"""The Python runtime of a turn: CPython itself, a fresh `__main__`, and the agent's globals.

The rules are those of prelude.js, in Python's terms. TypeError: a value of the wrong type, a time out of range, an
option that is not known. ValueError: what JSON cannot hold (NaN, a circle, half a surrogate pair), an integer of more
than 4300 digits (the driver reads no longer one), and what is over a budget. RuntimeError: a call after `close`. What
is hidden from the agent here is hidden for tidiness: it is no fence.
"""

from __future__ import annotations

import os
import sys
import time
from _json import encode_basestring, make_encoder, make_scanner  # the json package over it costs 15 ms
from _thread import RLock

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from cruft_sched.turns.host import Host

_FILE = "agent.py"
_MIB = 1 << 20
_TEN_YEARS_MS = 315_576_000_000


def prepare(
    host: Host, source: str, context: str, *, scheduled: bool, limits: dict[str, int]
) -> Callable[[], NoReturn]:
    """Everything up to, and without, the agent's first line. The function that is returned runs the agent."""
    _one_thread_at_a_time(host)
    _withdraw()
    closing = _Closing()
    module = sys.modules["__main__"] = type(sys)("__main__")
    names = module.__dict__
    names["__loader__"] = type("loader", (), {"get_source": lambda _name: source})  # what tracebacks quote from
    names |= {"context": _deep_freeze(_parse(context)), "state": _state(host, closing)}
    names |= _emit_and_close(host, closing)
    if scheduled:
        names["scheduler"] = _scheduler(host, closing)
    _bound_memory(limits["max_rss_mb"] * _MIB)
    spare = [bytes(4 * _MIB)]  # never touched, so it costs nothing; room to tell of a MemoryError in

    def run() -> NoReturn:
        try:
            exec(compile(source.removeprefix("\ufeff"), _FILE, "exec", dont_inherit=True), names)  # noqa: S102
        except BaseException as error:
            spare.clear()
            host.fail(_describe(error))
        else:
            host.complete(closing.result)
        finally:
            os._exit(1)  # reached only where even that failed; the interpreter's own exit would wait for threads

    return run


class _Closing:
    """Whether the agent has closed, and the JSON of the value it gave."""

    closed = False
    result = "null"

    def ends(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function under its public name, refused once the agent has closed."""

        def call(*args: object, **keywords: object) -> Any:
            if self.closed:
                raise RuntimeError(f"{name}: the agent has closed")
            return function(*args, **keywords)

        call.__name__ = call.__qualname__ = function.__qualname__ = name
        call.__doc__ = function.__doc__
        return call

    def frozen(self, name: str, functions: dict[str, Callable[..., Any]]) -> object:
        """An object that has these functions, and nothing can be set on it."""
        members = {key: staticmethod(self.ends(f"{name}.{key}", function)) for key, function in functions.items()}
        return type(name, (), {"__slots__": (), **members})()


def _emit_and_close(host: Host, closing: _Closing) -> dict[str, Callable[..., Any]]:
    def emit(event: dict[str, Any]) -> None:
        """Put one event into the audit log."""
        if not isinstance(event, dict):
            raise TypeError("emit: an event is a dict")
        host.emit(_json(event, "emit: the event"))

    def close(value: object = None) -> None:
        """Set the job's result. The turn completes at the end of the file; no other call works from here on."""
        closing.result = _json(value, "close: the value")
        closing.closed = True

    return {function.__name__: closing.ends(function.__name__, function) for function in (emit, close)}


def _state(host: Host, closing: _Closing) -> object:
    def get(name: str, default: object = None) -> Any:
        """A copy of the value kept under a key, or the default."""
        text = host.state_get(_key(name))
        return default if text is None else _parse(text)

    def set_(name: str, value: object) -> None:
        """Keep a copy of a value for the turns to come."""
        if not host.state_set(_key(name), _json(value, "state.set: the value")):
            raise ValueError("state.set: the budget max_state_bytes would be exceeded; nothing was stored")

    def delete(name: str) -> bool:
        """Forget a value. False where there was none."""
        return host.state_delete(_key(name))

    def list_() -> Any:
        """The keys, in a list."""
        return _parse(host.state_keys())

    return closing.frozen("state", {"get": get, "set": set_, "delete": delete, "list": list_})


def _key(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError("state: a key is a str")
    return _json(name, "state: the key")


def _scheduler(host: Host, closing: _Closing) -> object:
    """The waits. None of the functions returns: the process ends inside the call."""

    def sleep(ms: float) -> NoReturn:
        """Go on after so many milliseconds."""
        host.suspend(_object(kind='"sleep"', delay_ms=_milliseconds("scheduler.sleep", ms, "the time")))

    def sleep_until(when: object) -> NoReturn:
        """Go on at an instant: ISO 8601, epoch milliseconds, or a datetime; in UTC where it does not say."""
        host.suspend(_object(kind='"sleep_until"', deadline_ms=_instant(when)))

    def call_tool(name: str, args: object = None, options: object = None, **keywords: object) -> NoReturn:
        """Go on with the outcome of a durable tool. An option, in a dict or as a keyword: timeout_ms."""
        call = "scheduler.call_tool"
        given = _options(call, options, keywords, ("timeout_ms",))
        request = {"kind": '"tool"', "tool": _name(call, name, "the tool")}
        request["args"] = _bounded(host, args, f"{call}: args")
        host.suspend(_object(**request, **_timeout(call, given)))

    def wait_for_input(kind: str, payload: object = None, options: object = None, **keywords: object) -> NoReturn:
        """Go on with a person's answer. Options, in a dict or as keywords: schema, timeout_ms, on_timeout."""
        call = "scheduler.wait_for_input"
        given = _options(call, options, keywords, ("schema", "timeout_ms", "on_timeout"))
        request = {"kind": '"input"', "input_kind": _name(call, kind, "the kind")}
        request["payload"] = _bounded(host, payload, f"{call}: the payload")
        if "schema" in given:
            request["schema"] = _bounded(host, given["schema"], f"{call}: the schema")
        host.suspend(_object(**request, **_timeout(call, given)))

    waits: dict[str, Callable[..., NoReturn]] = {"sleep": sleep, "sleepUntil": sleep_until, "sleep_until": sleep_until}
    waits |= {"callTool": call_tool, "call_tool": call_tool}
    waits |= {"waitForInput": wait_for_input, "wait_for_input": wait_for_input}
    return closing.frozen("scheduler", waits)


def _options(call: str, given: object, keywords: dict[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
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


def _timeout(call: str, options: dict[str, Any]) -> dict[str, str]:
    """The options that bound a wait, as fields of its request."""
    fields = {}
    if "timeout_ms" in options:
        fields["timeout_ms"] = _milliseconds(call, options["timeout_ms"], "timeout_ms")
    if "on_timeout" in options:
        if options["on_timeout"] not in ("resume", "fail"):
            raise TypeError(f'{call}: on_timeout is "resume" or "fail"')
        if not fields:
            raise TypeError(f"{call}: on_timeout goes with timeout_ms")
        fields["on_timeout"] = _json(options["on_timeout"], f"{call}: on_timeout")
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


def _name(call: str, value: object, what: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= 200:
        raise TypeError(f"{call}: {what} is a str of 1 to 200 characters")
    return _json(value, f"{call}: {what}")


def _bounded(host: Host, value: object, what: str) -> str:
    text = _json(value, what)
    if not host.fits(text):
        raise ValueError(f"{what} would exceed the budget max_tool_arg_bytes")
    return text


def _json(value: object, what: str) -> str:
    """The JSON of a value, which a parser would give back as it was."""
    _check_keys(value, what)
    try:
        # The first argument remembers where the encoder is, to see a circle, so it serves one call only.
        encode = make_encoder({}, _no_json, encode_basestring, None, ":", ",", False, False, False)
        text = "".join(encode(value, 0))
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} holds half a surrogate pair, which is no text") from None
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{what} has no JSON form: {error}") from None
    return text


def _no_json(value: object) -> NoReturn:
    raise TypeError(f"{type(value).__name__} is none of its types")


def _check_keys(value: object, what: str) -> None:
    """Refuse a key that is no text: the encoder would make one of it, and the agent would not find it again."""
    seen: set[int] = set()
    todo: list[Any] = [value]
    while todo:
        holder = todo.pop()
        seen.add(id(holder))
        is_dict = isinstance(holder, dict)
        for key in holder if is_dict else ():
            if not isinstance(key, str):
                raise TypeError(f"{what} has a key that is no str: {key!r:.100}")
        inner = holder.values() if is_dict else holder if isinstance(holder, list | tuple) else ()
        todo += [item for item in inner if isinstance(item, dict | list | tuple) and id(item) not in seen]


def _object(**fields: str) -> str:
    """A JSON object of fields that are JSON already."""
    return "{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}"


class _Plain:
    """What the scanner asks to be told: JSON by the letter, and Python's own types."""

    strict, object_hook, object_pairs_hook, parse_float, parse_int, parse_constant = True, None, None, float, int, float


_scan: Callable[[str, int], tuple[Any, int]] = make_scanner(_Plain)  # type: ignore[arg-type]  # typeshed asks for more


def _parse(text: str) -> Any:
    return _scan(text.lstrip(), 0)[0]


def _refuse(*_args: object, **_more: object) -> NoReturn:
    raise TypeError("the context is frozen")


def _frozen_kind(base: type) -> type:
    """A kind of dict or list that cannot be changed. A copy of it, also a deep one, is a plain one again."""
    refused = {name: _refuse for name in _MUTATORS.split() if hasattr(base, name)}
    members = {"__slots__": (), "__reduce__": lambda self: (base, (base(self),)), **refused}
    return type(f"frozen_{base.__name__}", (base,), members)


_MUTATORS = (
    "__init__ __setitem__ __delitem__ __iadd__ __imul__ __ior__ "
    "append clear extend insert pop popitem remove reverse setdefault sort update"
)
_FROZEN: dict[type[Any], Any] = {dict: _frozen_kind(dict), list: _frozen_kind(list)}


def _deep_freeze(value: object) -> object:
    """The same value, frozen at every depth. Not recursive: a tool's result may be nested deeper than our stack."""
    root = [value]
    todo: list[Any] = [root]
    while todo:
        holder = todo.pop()
        base: Any = dict if isinstance(holder, dict) else list
        for place, inner in list(holder.items() if base is dict else enumerate(holder)):
            kind = _FROZEN.get(type(inner))
            if kind is not None:
                frozen = kind.__new__(kind)
                kind.__base__.__init__(frozen, inner)
                base.__setitem__(holder, place, frozen)
                todo.append(frozen)
    return root[0]


def _one_thread_at_a_time(host: Host) -> None:
    """Let no thread of the agent's speak while another does: half a message within another would fail the turn."""
    lock = RLock()

    def guarded(call: Callable[..., Any]) -> Callable[..., Any]:
        def locked(*args: str) -> Any:
            with lock:
                return call(*args)

        return locked

    for name in ("emit", "state_get", "state_keys", "state_set", "state_delete", "suspend", "complete", "fail"):
        setattr(host, name, guarded(getattr(host, name)))


def _withdraw() -> None:
    """Keep our pipe from the processes that the agent starts, since the driver would wait for their end; and leave it
    the standard library to import, but nothing of ours or of site-packages."""
    pipe, ours = int(sys.argv[2]), sys.argv[3:]
    os.set_inheritable(pipe, False)
    os.register_at_fork(after_in_child=lambda: os.close(pipe))
    sys.path[:] = [entry for entry in sys.path if entry not in ours]
    for name in [name for name in sys.modules if name.partition(".")[0] == "cruft_sched"]:
        del sys.modules[name]
    sys.argv[:] = [_FILE]


def _bound_memory(agents: int) -> None:
    """Count the agent's memory from what the interpreter has now; the child's own bound is far above it."""
    import resource

    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            ours = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return  # not this system's way; the child's bound stands
    bound = ours + 16 * _MIB + agents
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard == resource.RLIM_INFINITY or bound < hard:
        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))


def _describe(error: BaseException) -> str:
    name, message = "Exception", "an error that cannot be shown"
    try:
        name = type(error).__name__
        message = str(error)
    except BaseException:  # noqa: S110  # it is the agent's own code that failed here; there is nothing else to tell
        pass
    told = {"name": _cut(name, 200), "message": _cut(message, 2000), "stack": _cut(_stack(error), 4000)}
    return _json(told, "the error")


def _stack(error: BaseException) -> str:
    """The traceback as Python shows it, of the agent's own frames, with its middle left out where it is too long."""
    try:
        import traceback

        told = traceback.TracebackException(type(error), error, error.__traceback__, lookup_lines=False)
        todo: list[Any] = [told]
        while todo:
            one = todo.pop()
            one.stack[:] = [frame for frame in one.stack if frame.filename == _FILE]
            todo += [other for other in (one.__cause__, one.__context__, *(one.exceptions or ())) if other is not None]
        text = "".join(told.format())
    except BaseException:  # there is no memory left, or the agent has changed the library
        return ""
    return text if len(text) <= 4000 else f"{text[:1990]}\n […]\n{text[-1990:]}"


def _cut(text: str, length: int) -> str:
    start = str.__getitem__(text, slice(length))  # a subclass's own would be the agent's code
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in start)
