"""What an agent can import, the same in both languages, in real child processes."""

from __future__ import annotations

from typing import Any

import pytest

from cruft_sched.core.outcomes import AgentError, BudgetError, EventError, Sleep
from cruft_sched.core.policy import Budgets
from cruft_sched.errors import UnavailableError
from cruft_sched.turns import launcher
from tests.turns.test_both_languages import JS, PY, both, run
from tests.turns.test_javascript import Result

MODULES = {
    JS: {
        "util": 'export const x = 1; export default "d"; export function raise() { throw new RangeError("inner") }',
        "./lib/a.js": 'import {b} from "./b.js"; export const a = () => b + 1',
        "lib/b.js": 'import {a} from "../lib/a.js"; import {ten} from "../ten.js";'
        "export const b = ten + 1; export const twice = () => a() * 2",
        "ten.js": "export const ten = 10",
        "@scope/pkg": 'export {x as y} from "util"',
        "asks": "export const goal = context.goal; emit({kind: 'loaded'});export const rest = () => scheduler.sleep(9)",
        "broken": "export const x = 1;\nlet y = ;",
        "denied": 'import "circle"; import "std"; export const x = 1',
        "circle": 'import {x} from "denied"; export const z = () => x',
    },
    PY: {
        "util": "x = 1\nd = 'd'\ndef throw():\n    raise IndexError('inner')\n",
        "lib": "",
        "lib.a": "from . import b\ndef a(): return b.b + 1\n",
        "lib.b": "\ufeffimport lib.a\nfrom ten import ten\nb = ten + 1\ndef twice(): return lib.a.a() * 2\n",
        "ten": "ten = 10",
        "scope": "from . import pkg",
        "scope.pkg": "from util import x as y",
        "asks": "import __main__ as m\ngoal = m.context['goal']\nm.emit({'kind': 'loaded'})\n"
        "def rest(): m.scheduler.sleep(9)\n",
        "broken": "x = 1\nif True\n",
        "denied": "import msgspec",
    },
}


def ran(language: str, javascript: str, python: str, **given: Any) -> Result:
    return run(language, javascript, python, modules=MODULES[language], **given)


@both
def test_admitted_modules(language: str) -> None:
    done = ran(
        language,
        'import d, {x} from "util"; import * as u from "./util"; import {y} from "@scope/pkg"; close([x, d, u.x, y])',
        "import util\nfrom util import x, d\nfrom scope.pkg import y\nclose([x, d, util.x, y])",
    )
    assert done.value == [1, "d", 1, 1]
    assert done.denials == []


@both
def test_modules_import_each_other_in_a_circle(language: str) -> None:
    done = ran(
        language,
        'import {a} from "lib/a.js"; import {twice} from "./lib/b.js"; close([a(), twice()])',
        "import lib.a\nfrom lib.b import twice\nclose([lib.a.a(), twice()])",
    )
    assert done.value == [12, 24]


@both
def test_an_import_while_the_agent_runs(language: str) -> None:
    done = ran(
        language,
        'const name = "ten.js"; const one = await import(name); close([one.ten, one === await import("./ten.js")])',
        "from importlib import import_module as load\none = load('ten')\nclose([one.ten, one is load('ten')])",
    )
    assert done.value == [10, True]


@both
def test_a_module_runs_once_and_has_the_agents_globals(language: str) -> None:
    source = "import {goal, rest} from 'asks'; await import('asks'); emit({kind: goal}); rest()"
    python = "from asks import goal, rest\nimport asks\nemit({'kind': goal}); rest()"
    done = ran(language, source, python, context={"goal": "g"})
    assert done.events == [{"kind": "loaded"}, {"kind": "g"}]
    assert done.request == Sleep(delay_ms=9)


DENIED = {
    JS: ["std", "os", "./agent.js", "/etc/passwd", "file:///etc/passwd", "<input>", "lib", "lib/A.js", "../ten.js", ""],
    PY: ["msgspec", "cruft_sched", "_quickjs", "lib.c", "Util", "__main__.x"],
}


@pytest.mark.parametrize(("language", "name"), [(language, name) for language in DENIED for name in DENIED[language]])
def test_another_import_is_refused_and_noted(language: str, name: str) -> None:
    done = ran(
        language,
        f"try {{ await import({name!r}) }} catch (e) {{ close([e instanceof Error, e.message]) }}",
        f"import importlib\ntry: importlib.import_module({name!r})\n"
        "except ImportError as e: close([type(e) is ModuleNotFoundError, str(e)])",
    )
    known, message = done.value
    assert known
    if name == "__main__.x":  # the interpreter asks no finder
        assert (message, done.denials) == ("No module named '__main__.x'; '__main__' is not a package", [])
        return
    assert "not admitted by the policy" in message
    assert done.denials == [name]


@both
def test_without_any_module_all_the_same(language: str) -> None:
    done = run(language, "import x from 'std'; close(1)", "import msgspec\nclose(1)")
    assert isinstance(done.error, AgentError)
    assert "not admitted by the policy" in done.error.message
    assert done.error.name == ("Error" if language == JS else "ModuleNotFoundError")
    assert done.denials == ["std" if language == JS else "msgspec"]


@both
def test_a_module_that_imports_what_is_not_admitted(language: str) -> None:
    done = ran(
        language,
        "try { await import('denied') } catch (e) { close(e.message) }",
        "try: import denied\nexcept ImportError as e: close(str(e))",
    )
    assert "not admitted by the policy" in done.value
    assert done.denials == ["std" if language == JS else "msgspec"]


@both
def test_an_error_in_a_module_says_where(language: str) -> None:
    broken = ran(language, "import 'broken'", "import broken").error
    assert broken.name == "SyntaxError"
    assert ("broken:2:9" if language == JS else 'File "modules/broken.py", line 2') in broken.stack
    thrown = ran(language, "import {raise} from 'util'; raise()", "import util\nutil.throw()").error
    assert (thrown.name, thrown.message) == ("RangeError" if language == JS else "IndexError", "inner")
    assert ("(util:1:" if language == JS else "    raise IndexError('inner')\n") in thrown.stack


@both
def test_import_value(language: str) -> None:
    done = ran(
        language,
        "close([await importValue('util', 'x'), await importValue('./lib/b.js', 'b')])",
        "close([import_value('util', 'x'), importValue('lib.b', 'b')])",
    )
    assert done.value == [1, 11]


NO_VALUES = {
    "('util', 'none')": ("TypeError", 0),
    "('util', 'toString')": ("TypeError", 0),
    "(5, 'x')": ("TypeError", 0),
    "('util', 5)": ("TypeError", 0),
    "('util')": ("TypeError", 0),
    "('cruft_sched', 'x')": ("Error", 1),
}


@both
@pytest.mark.parametrize("call", NO_VALUES)
def test_no_import_value(language: str, call: str) -> None:
    done = ran(
        language,
        f"try {{ await importValue{call} }} catch (e) {{ close(e.name) }}",
        f"try: import_value{call}\nexcept Exception as e: close(type(e).__name__)",
    )
    name, denials = NO_VALUES[call]
    assert done.value == ("ModuleNotFoundError" if (language, name) == (PY, "Error") else name)
    assert len(done.denials) == denials


@both
def test_import_value_is_frozen_and_fails_after_close(language: str) -> None:
    done = ran(
        language,
        "let n = 0; try { importValue = 1 } catch { n++ } try { importValue.x = 1 } catch { n++ } close(n);"
        "let late = ''; try { importValue('util', 'x') } catch (e) { late = e.message }"
        "if (!late.includes('has closed')) throw new Error(late)",
        "close(2)\ntry: import_value('util', 'x')\nexcept RuntimeError as e: assert 'has closed' in str(e)\n"
        "else: raise AssertionError",
    )
    assert done.value == 2


@both
def test_denied_imports_are_bounded(language: str) -> None:
    javascript = "for (let i = 0; i < %d; i++) try { await import('x' + i) } catch {}"
    python = "for i in range(%d):\n try: __import__(f'x{i}')\n except ImportError: pass"
    few = Budgets(timeout_ms=10_000, max_events=3)
    assert ran(language, javascript % 3, python % 3, budgets=few).denials == ["x0", "x1", "x2"]
    over = ran(language, javascript % 4, python % 4, budgets=few)
    assert over.error == BudgetError(budget="max_events", limit=3, attempted=4)


@both
def test_a_long_name_is_cut_where_it_is_noted(language: str) -> None:
    done = ran(
        language,
        "try { await import('é'.repeat(5000)) } catch (e) { close(e.message.length < 300) }",
        "try: __import__('é' * 5000)\nexcept ImportError: close(True)",
    )
    assert done.value is True
    assert done.denials == ["é" * 200]


ENTRIES = {
    JS: {
        "first": "await null; import {ten} from 'ten'; globalThis.made = ten; emit({kind: 'first'})",
        "ten": "export const ten = 10",
        "throws": "\nthrow new RangeError('inner')",
        "stuck": "await new Promise(() => {})",
    },
    PY: {
        "first": "import builtins, __main__ as m\nfrom ten import ten\nbuiltins.made = ten\nm.emit({'kind': 'first'})",
        "ten": "ten = 10",
        "throws": "\nraise IndexError('inner')",
    },
}


@both
def test_the_entry_module_comes_before_the_agents_first_line(language: str) -> None:
    entered = {"modules": ENTRIES[language], "entry_module": "first"}
    done = run(language, "emit({kind: 'agent'}); close(made)", "emit({'kind': 'agent'}); close(made)", **entered)
    assert (done.events, done.value) == ([{"kind": "first"}, {"kind": "agent"}], 10)
    once = "import 'first'; close(1)" if language == JS else "import first; close(1)"
    assert run(language, once, once, **entered).events == [{"kind": "first"}]


@both
def test_the_entry_module_moves_no_line_and_no_column(language: str) -> None:
    source = "let y = ;" if language == JS else "y = ;"
    error, plain = (
        run(language, source, source, modules=ENTRIES[language], entry_module=entry).error for entry in ("first", "")
    )
    assert error == plain
    assert error.name == "SyntaxError"


@both
def test_an_entry_module_that_throws_fails_the_turn(language: str) -> None:
    done = run(language, "close(1)", "close(1)", modules=ENTRIES[language], entry_module="throws")
    assert done.error.message == "inner"
    assert ("throws:2:" if language == JS else 'File "modules/throws.py", line 2') in done.error.stack


def test_javascript_an_entry_module_that_never_ends() -> None:
    done = Result("close(1)", modules=ENTRIES[JS], entry_module="stuck")
    assert done.error.message == "the agent awaits something that can never happen"


EVENTS: dict[str, Any] = {
    "plain": True,
    "done": {"properties": {"count": {"type": "integer", "minimum": 1}}, "required": ["count"]},
}


@both
def test_expected_events(language: str) -> None:
    source = 'emit({"kind": "plain", "x": [1]}); emit({"kind": "done", "count": 2})'
    assert len(run(language, source, source, expected_events=EVENTS).events) == 2


@both
@pytest.mark.parametrize(
    ("event", "fault"),
    [
        ('{"kind": "other"}', "$.kind: no event of the kind 'other' is expected"),
        ('{"kind": 5}', "$.kind: is required, and a text"),
        ("{}", "$.kind: is required, and a text"),
        ('{"kind": "done"}', "$.count: is required, and missing"),
        ('{"kind": "done", "count": 0}', "$.count: does not hold to minimum 1"),
    ],
)
def test_an_event_that_is_not_expected_fails_the_turn(language: str, event: str, fault: str) -> None:
    source = f'state.set("a", 1); emit({{"kind": "plain"}}); emit({event})'
    done = run(language, source, source, expected_events=EVENTS)
    assert done.error == EventError(message=f"an event is not as the policy expects: {fault}")
    assert (done.events, done.state, done.outcome.child_exit_code) == ([{"kind": "plain"}], {}, 137)


def test_where_no_event_is_expected() -> None:
    assert isinstance(Result("emit({kind: 'x'})", expected_events={}).error, EventError)


NO_ATTRIBUTES = [
    "import x from 'util' with {type: 'json'}; close(x)",
    "close((await import('util', {with: {type: 'json'}})).x)",
]


@pytest.mark.parametrize("source", NO_ATTRIBUTES)
def test_javascript_attributes_are_refused(source: str) -> None:
    done = Result(source, modules=MODULES[JS])
    assert done.error.message == "the attributes of an import are not known here"


def test_javascript_a_load_that_failed_leaves_nothing_behind() -> None:
    # What the engine frees must not be reached by way of a module that was loaded in the same circle.
    done = Result(
        "const told = []; for (const name of ['denied', 'circle', 'denied', 'broken', 'broken', 'util'])"
        "try { told.push((await import(name)).x) } catch (e) { told.push(e.message) } close(told)",
        modules=MODULES[JS],
    )
    again = 'the module "%s" could not be loaded before'
    syntax = "unexpected token in expression: ';'"
    refused = 'the import of "std" is not admitted by the policy'
    assert done.value == [refused, again % "circle", again % "denied", syntax, again % "broken", 1]


def test_javascript_a_chain_that_is_deeper_than_the_stack() -> None:
    chain = {f"m{i}": f"export {{v}} from 'm{i + 1}'" for i in range(3000)} | {"m3000": "export const v = 1"}
    done = Result("try { await import('m0') } catch (e) { close([e.name, (await import('m2990')).v]) }", modules=chain)
    assert done.value == ["RangeError", 1]


def test_javascript_what_the_agent_changes_of_the_language_admits_nothing() -> None:
    done = Result(
        "Error.prepareStackTrace = () => { emit({kind: 'in'}); return '' };"
        "String.prototype.startsWith = Object.hasOwn = Array.prototype.includes = () => true;"
        "Promise.prototype.then = function (f) { return f({x: 'forged'}) };"
        "try { close((await import('%s%n')).x) } catch (e) { close(e.message) }",
        modules=MODULES[JS],
    )
    assert done.value == 'the import of "%s%n" is not admitted by the policy'
    assert done.denials == ["%s%n"]


def test_python_a_module_that_the_library_tries_is_no_denial() -> None:
    tries = "import copy, pickle, platform\nplatform.java_ver()\ntry: import winreg\nexcept ImportError: close(1)"
    done = Result(tries, language=PY)
    assert (done.value, done.denials) == (1, [])


def test_python_the_library_comes_first() -> None:
    assert Result("import json\nclose(json.dumps(1))", language=PY, modules={"json": "dumps = None"}).value == "1"


def test_an_engine_that_is_not_as_expected_starts_no_agent_with_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = "import sys; sys.path[:0] = sys.argv[3:]; from cruft_sched.turns import engine; engine._WORD = 4;"
    monkeypatch.setattr(launcher, "_BOOT", f"{odd} from cruft_sched.turns.child import main; main()")
    assert Result("close(1)").value == 1
    with pytest.raises(UnavailableError, match="cannot be given modules") as error:
        Result("close(1)", modules=MODULES[JS])
    assert error.value.exit_code == 69
    denied = Result("try { await import('std') } catch (e) { close(e.name) }")
    assert (denied.value, denied.denials) == ("ReferenceError", [])
