"""Which arguments a command may be given, and what a hostile agent tries to slip past."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cruft_sched.tools.process.arguments import args_fault

GIT = ["log", "fetch", "origin", "--oneline", "--format=*", "--max-count=[0-9]", "src/**", "*.md", "v?.?", "--"]

ALLOWED = [
    [],
    ["log", "--oneline", "--max-count=5", "--", "src/a/b.py", "README.md"],
    ["fetch", "origin"],
    ["log", "--format=%H %an; $(id) `id` | rm"],  # there is no shell to which this would say anything
    ["log", "v1.2"],
    ["log", "src/a..b/c...d"],  # dots that go nowhere
]

REFUSED = {
    "an option of fetch that runs a program": ["fetch", "--upload-pack=touch /tmp/x", "origin"],
    "the same in two arguments": ["fetch", "--upload-pack", "touch /tmp/x"],
    "a configuration that runs a program": ["-c", "core.sshCommand=touch /tmp/x", "fetch"],
    "the same in one argument": ["-ccore.sshCommand=touch", "fetch"],
    "a configuration from the environment": ["--config-env=core.sshCommand=X", "fetch"],
    "another folder with programs": ["--exec-path=/tmp/x", "log"],
    "another repository": ["-C", "/srv/evil", "log"],
    "the same by its long name": ["--git-dir=/srv/evil", "log"],
    "a pager": ["--paginate", "log"],
    "a file that is written": ["log", "--output=/etc/cron.d/x"],
    "an abbreviated option": ["log", "--outp=x"],
    "an option as a name": ["log", "--output.md"],
    "an option as a name, after the end of options": ["log", "--", "--output.md"],
    "a transport that runs a program": ["fetch", "ext::sh -c touch% /tmp/x"],
    "a transport that ends like a file": ["fetch", "ext::sh -c touch% /tmp/x.md"],
    "a command that was not named": ["push", "origin"],
    "only the beginning is named": ["log2"],
    "only the end is named": ["xlog"],
    "a line after it": ["log\n"],
    "another case": ["LOG"],
    "an empty argument": [""],
    "a path that goes up": ["log", "src/../../../etc/passwd"],
    "a path that goes up at its end": ["log", "src/a/.."],
    "an absolute path": ["log", "/etc/motd.md"],
    "a folder where a name is meant": ["log", "sub/README.md"],
    "more than one digit": ["log", "--max-count=55"],
    "a NUL": ["log\0--output=x"],
    "a NUL in what a glob takes": ["--format=\0"],
    "half a character": ["--format=\ud800"],
    "too long for the kernel": ["--format=" + "x" * (128 << 10)],
}


@pytest.mark.parametrize("args", ALLOWED, ids=map(str, ALLOWED))
def test_what_is_named_is_allowed(args: list[str]) -> None:
    assert args_fault(args, GIT) is None


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_named_is_refused(name: str) -> None:
    fault = args_fault(REFUSED[name], GIT)
    assert fault is not None
    assert fault.startswith("argument ")


def test_the_first_fault_is_told_and_cut() -> None:
    assert args_fault(["log", "--x" + "y" * 200, "--z"], GIT) == (
        "argument 1 is of no shape that the policy allows: '--x" + "y" * 77 + "\\u2026'"
    )


def test_too_many() -> None:
    assert args_fault(["log"] * 4097, GIT) == "more than 4096 arguments"


def test_no_patterns_allow_no_arguments() -> None:
    assert args_fault([], []) is None
    assert args_fault(["x"], []) is not None


@pytest.mark.parametrize("pattern", ["*", "**", "?*", "[!a]*", "[-]*", "**/x"])
def test_only_a_dash_stands_for_a_dash(pattern: str) -> None:
    assert args_fault(["--exec=x"], [pattern]) is not None
    assert args_fault(["-/x"], [pattern]) is not None


def test_going_up_can_be_named() -> None:
    assert args_fault(["../x", "--a=.."], ["../x", "--a=.."]) is None
    assert args_fault(["../y"], ["../*"]) is not None
    assert args_fault(["--a=b:../y"], ["--a=**"]) is not None


TEXT = st.text("ab-./=*?[!]\n", max_size=8)


@given(st.lists(TEXT, max_size=4), st.lists(TEXT, max_size=4))
def test_every_argument_needs_a_pattern_of_its_own(args: Sequence[str], patterns: Sequence[str]) -> None:
    whole = args_fault(args, patterns) is None
    assert whole == all(args_fault([arg], patterns) is None for arg in args)
    assert whole == all(any(args_fault([arg], [one]) is None for one in patterns) for arg in args)


@given(TEXT, st.lists(TEXT, max_size=4))
def test_an_option_needs_a_pattern_that_is_one(arg: str, patterns: list[str]) -> None:
    if args_fault(["-" + arg], patterns) is None:
        assert any(pattern.startswith("-") for pattern in patterns)


def test_an_argument_cannot_make_a_pattern_slow() -> None:
    started = time.process_time()
    assert args_fault(["a" * 5000], ["*a*a*a*a*a*a*a*a*b", "**a**a**a**a**b"]) is not None
    assert time.process_time() - started < 5
