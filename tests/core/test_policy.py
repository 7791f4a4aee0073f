"""The policy: every fault, all at once, each with its path."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cruft_sched.core.policy import MAX_POLICY_BYTES, Policy, check_policy, decode_policy

MINIMAL = {"agent": "agent.js", "audit_log": "audit.jsonl"}


def faults_of(**fields: Any) -> list[str]:
    return check_policy(json.dumps(MINIMAL | fields).encode())[1]


def test_the_least_policy() -> None:
    policy, faults = check_policy(json.dumps(MINIMAL).encode())
    assert faults == []
    assert policy == Policy(agent="agent.js", audit_log="audit.jsonl")
    assert policy.budgets.timeout_ms == 30_000


def test_every_fault_at_once_with_its_path() -> None:
    data = b"""{"schema_version": 2, "agent": 5, "tolls": [], "tolls": [],
                "context": {"a": [{"b": 1, "b": 2}], "scheduler_resume": 1},
                "state": [], "budgets": {"timeout_ms": 0, "max_evnts": 1, "max_events": "many"}}"""
    policy, faults = check_policy(data)
    assert policy is None
    assert [fault.partition(": ")[0] for fault in sorted(faults)] == [
        "$.agent",
        "$.audit_log",
        "$.budgets.max_events",
        "$.budgets.max_evnts",
        "$.budgets.timeout_ms",
        "$.context.a[0].b",
        "$.context.scheduler_resume",
        "$.schema_version",
        "$.state",
        "$.tolls",
        "$.tolls",
    ]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "not JSON"),
        (b"[]", "an array and not an object"),
        (b"null", "null and not an object"),
        (b'"x"', "a string and not an object"),
        (b"{'agent': 1}", "not JSON"),
        (b'{"a": NaN}', "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b'{"a": "\xff"}', "not JSON"),
        (b'\xef\xbb\xbf{"a": 1}', "not JSON"),
        (b'{"a": "\\ud800"}', "not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested more than 100 deep"),
        (b'{"a":' + b"[" * 100 + b"]" * 100 + b"}", "nested more than 100 deep"),
        (b'{"a":"' + b"x" * MAX_POLICY_BYTES + b'"}', "bytes long"),
    ],
)
def test_what_is_no_policy_at_all(data: bytes, what: str) -> None:
    policy, faults = check_policy(data)
    assert policy is None
    assert len(faults) == 1
    assert what in faults[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"schema_version": True},
        {"schema_version": "1"},
        {"agent": ""},
        {"agent": "x" * 5000},
        {"agent": "a\0.js"},
        {"audit_log": None},
        {"profile": 1},
        {"context": None},
        {"budgets": []},
        {"budgets": {"timeout_ms": 1.5}},
        {"budgets": {"timeout_ms": True}},
        {"budgets": {"max_rss_mb": 1}},
    ],
)
def test_wrong_types_and_values(fields: dict[str, Any]) -> None:
    assert len(faults_of(**fields)) == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from(["schema_version", "agent", "audit_log", "profile", "context", "state", "budgets", "x"])


@given(st.dictionaries(names, json_values))
def test_no_policy_crashes_the_validator_and_what_passes_decodes(tree: dict[str, Any]) -> None:
    data = json.dumps(tree).encode()
    policy, faults = check_policy(data)
    assert (policy is None) == bool(faults)
    if policy is not None:
        assert decode_policy(data) == policy


@given(st.binary(max_size=60))
def test_no_bytes_crash_the_validator(data: bytes) -> None:
    assert check_policy(data)[1]


@pytest.mark.parametrize("budget", ["max_steps", "max_microtasks"])
def test_steps_and_microtasks_are_whole_numbers_from_one_on(budget: str) -> None:
    for wrong in (0, -1, 1.5, "5", True):
        assert [fault.partition(": ")[0] for fault in faults_of(budgets={budget: wrong})] == [f"$.budgets.{budget}"]
    assert faults_of(budgets={budget: 1}) == []
    assert faults_of(budgets={"max_steps": None}) == []
    assert faults_of(budgets={"max_microtasks": None}) != []
