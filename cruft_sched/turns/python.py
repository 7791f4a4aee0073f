"""The Python runtime of a turn: CPython itself, a fresh `__main__`, and the agent's globals.

The rules are those of prelude.js, in Python's terms. TypeError: a value of the wrong type, a time out of range, an
option that is not known. ValueError: what JSON cannot hold (NaN, a circle, half a surrogate pair), an integer of more
than 4300 digits (the driver reads no longer one), and what is over a budget. RuntimeError: a call after `close`. What
is hidden from the agent here is hidden for tidiness: it is no fence.
"""

from __future__ import annotations

import ctypes
import os
import sys
from _thread import RLock

from cruft_sched.turns.python_calls import ToolError, tool_caller
from cruft_sched.turns.python_modules import FOLDER, AdmittedModules, import_value
from cruft_sched.turns.python_output import redirect
from cruft_sched.turns.python_values import deep_freeze, parse, to_json
from cruft_sched.turns.python_waits import scheduler

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from cruft_sched.turns.host import Host
    from cruft_sched.turns.program import Program

_FILE = "agent.py"
_LIBRARIES = ("libz.so.1", "libbz2.so.1.0", "liblzma.so.5", "libuuid.so.1")
_MIB = 1 << 20
_SPEAKING = (
    *("emit", "note", "call_tool", "state_get", "state_keys", "state_set", "state_delete", "state_reset"),
    *("fits", "import_denial", "output", "over", "suspend", "complete", "fail", "out_of_memory"),
)


def prepare(host: Host, program: Program) -> Callable[[], NoReturn]:
    """Everything up to, and without, the agent's first line. The function that is returned runs the agent."""
    _one_thread_at_a_time(host)
    _load_libraries()
    _withdraw()
    redirect(host)
    sys.meta_path.append(AdmittedModules(host, program.modules))
    closing = Closing()
    module = sys.modules["__main__"] = type(sys)("__main__")
    names = module.__dict__
    names["__loader__"] = type("loader", (), {"get_source": lambda _name: program.source})  # what tracebacks quote from
    names |= {"context": deep_freeze(parse(program.context)), "state": _state(host, closing)}
    names |= _functions(host, closing) | {"ToolError": ToolError}
    names |= {name: closing.ends(name, import_value) for name in ("importValue", "import_value")}
    if program.scheduled:
        names["scheduler"] = scheduler(host, closing)
    _bound_memory(program.limits["max_rss_mb"] * _MIB)
    step = _step_counter(host, program.limits["max_steps"]) if "max_steps" in program.limits else None
    spare = [bytes(4 * _MIB)]  # never touched, so it costs nothing; room to tell of a MemoryError in

    def run() -> NoReturn:
        try:
            code = compile(program.source.removeprefix("\ufeff"), _FILE, "exec", dont_inherit=True)
            try:
                sys.settrace(step)
                if program.entry:
                    __import__(program.entry)
                exec(code, names)  # noqa: S102
            finally:
                sys.settrace(None)  # what an error takes to be told of is not the agent's
        except MemoryError:
            spare.clear()
            host.out_of_memory()
        except BaseException as error:
            spare.clear()
            host.fail(_describe(error))
        else:
            host.complete(closing.result)
        finally:
            os._exit(1)  # reached only where even that failed; the interpreter's own exit would wait for threads

    return run


class Closing:
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


def _step_counter(host: Host, limit: int) -> Callable[..., Any]:
    """A trace function that ends the turn at the first line over the limit. The agent can take it off: it is a guard
    against mistakes, and what gets round it ends at the wall."""
    ours = os.path.dirname(__file__)
    steps = 0

    def line(_frame: object, event: str, _more: object) -> object:
        nonlocal steps
        if event == "line":
            steps += 1
            if steps > limit:
                host.over("max_steps", steps)
        return line

    def called(frame: Any, _event: str, _more: object) -> object:
        return None if frame.f_code.co_filename.startswith(ours) else line

    return called


def _functions(host: Host, closing: Closing) -> dict[str, Callable[..., Any]]:
    def emit(event: dict[str, Any]) -> None:
        """Put one event into the audit log."""
        if not isinstance(event, dict):
            raise TypeError("emit: an event is a dict")
        host.emit(to_json(event, "emit: the event"))

    def audit_note(value: object) -> None:
        """Put a remark, which is any JSON value, into the audit log."""
        host.note(to_json(value, "audit_note: the value"))

    def close(value: object = None) -> None:
        """Set the job's result. The turn completes at the end of the file; no other call works from here on."""
        closing.result = to_json(value, "close: the value")
        closing.closed = True

    call_tool = tool_caller(host)
    functions: dict[str, Callable[..., Any]] = {"emit": emit, "call_tool": call_tool, "callTool": call_tool}
    functions |= {"audit_note": audit_note, "auditNote": audit_note, "close": close}
    return {name: closing.ends(name, function) for name, function in functions.items()}


def _state(host: Host, closing: Closing) -> object:
    def get(name: str, default: object = None) -> Any:
        """A copy of the value kept under a key, or the default."""
        text = host.state_get(_key(name))
        return default if text is None else parse(text)

    def set_(name: str, value: object) -> None:
        """Keep a copy of a value for the turns to come."""
        if not host.state_set(_key(name), to_json(value, "state.set: the value")):
            raise ValueError("state.set: the budget max_state_bytes would be exceeded; nothing was stored")

    def delete(name: str) -> bool:
        """Forget a value. False where there was none."""
        return host.state_delete(_key(name))

    def list_() -> Any:
        """The keys, in a list."""
        return parse(host.state_keys())

    def reset() -> None:
        """Forget every value."""
        host.state_reset()

    return closing.frozen("state", {"get": get, "set": set_, "delete": delete, "list": list_, "reset": reset})


def _key(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError("state: a key is a str")
    return to_json(name, "state: the key")


def _one_thread_at_a_time(host: Host) -> None:
    """Let no thread of the agent's speak while another does: half a message within another would fail the turn."""
    lock = RLock()

    def guarded(call: Callable[..., Any]) -> Callable[..., Any]:
        def locked(*args: str) -> Any:
            with lock:
                return call(*args)

        return locked

    for name in _SPEAKING:
        setattr(host, name, guarded(getattr(host, name)))


def _load_libraries() -> None:
    """Load what extension modules of the standard library (binascii, zlib, bz2, lzma, uuid) need of the system's own
    libraries: no file of those can be opened later. The large ones (sqlite3, ssl) are left out: 1 to 5 ms each."""
    for name in _LIBRARIES:
        try:  # noqa: SIM105  # contextlib would cost the child more than the libraries do
            ctypes.CDLL(name)
        except OSError:  # this Python has it inside, or does without
            pass


def _withdraw() -> None:
    """Keep our pipes from the processes that the agent starts, since the driver would wait for their end; and leave it
    the standard library to import, but nothing of ours or of site-packages."""
    answers, pipe, ours = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    for descriptor in (answers, pipe):
        os.set_inheritable(descriptor, False)

    def close() -> None:
        os.close(answers)
        os.close(pipe)

    os.register_at_fork(after_in_child=close)
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
        if isinstance(error, SyntaxError) and error.offset is not None:
            message = f"{error.msg} ({error.filename}, line {error.lineno}, column {error.offset})"
    except BaseException:  # noqa: S110  # it is the agent's own code that failed here; there is nothing else to tell
        pass
    told = {"name": _cut(name, 200), "message": _cut(message, 2000), "stack": _cut(_stack(error), 4000)}
    return to_json(told, "the error")


def _stack(error: BaseException) -> str:
    """The traceback as Python shows it, of the agent's own frames, with its middle left out where it is too long."""
    try:
        import traceback

        told = traceback.TracebackException(type(error), error, error.__traceback__, lookup_lines=False)
        todo: list[Any] = [told]
        while todo:
            one = todo.pop()
            one.stack[:] = [frame for frame in one.stack if _is_agents(frame.filename)]
            todo += [other for other in (one.__cause__, one.__context__, *(one.exceptions or ())) if other is not None]
        text = "".join(told.format())
    except BaseException:  # there is no memory left, or the agent has changed the library
        return ""
    return text if len(text) <= 4000 else f"{text[:1990]}\n […]\n{text[-1990:]}"


def _is_agents(file: str) -> bool:
    return file == _FILE or file.startswith(FOLDER)


def _cut(text: str, length: int) -> str:
    start = str.__getitem__(text, slice(length))  # a subclass's own would be the agent's code
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in start)
