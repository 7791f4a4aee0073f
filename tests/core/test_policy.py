"""The policy: every fault, all at once, each with its path."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cruft_sched.core.admitted import integrity_fault
from cruft_sched.core.policy import MAX_POLICY_BYTES, Policy, decode_policy
from cruft_sched.core.policy_faults import check_policy
from cruft_sched.core.sealing import digest
from cruft_sched.core.specifiers import resolve

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
        (b"", "it is empty"),
        (b"[]", "an array and not an object"),
        (b"null", "null and not an object"),
        (b'"x"', "a string and not an object"),
        (b"{'agent': 1}", "not JSON"),
        (b'{"a": NaN}', "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b'{"a": "\xff"}', "not JSON"),
        (b'\xef\xbb\xbf{"a": 1}', "not JSON"),
        (b'{"a": "\\ud800"}', "half of a surrogate pair"),
        (b'{"a": ' + b"9" * 5000 + b"}", "a number that is too large"),
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


B3 = "blake3:" + "0" * 64
SRI = "sha256-" + "A" * 43 + "="


@pytest.mark.parametrize(
    ("agent", "specifiers"),
    [
        ("agent.js", ["util", "./util.js", "../common/util.js", "@scope/pkg", "lib/a.mjs", "os", "é", "a.b-c_d~1"]),
        ("agent.py", ["helper", "pkg", "pkg.sub", "pkg.sub.deep", "é", "_x"]),
    ],
)
def test_specifiers(agent: str, specifiers: list[str]) -> None:
    files = dict.fromkeys(specifiers, "x")
    assert faults_of(agent=agent, modules=files) == []
    assert faults_of(agent=agent, packages=files, package_integrity=dict.fromkeys(files, SRI)) == []


@pytest.mark.parametrize(
    ("agent", "specifier"),
    [
        *(("agent.js", name) for name in ["", "/a", "a/", "a//b", ".", "..", "./", "a/../b", "a/./b", "a b", "a:b"]),
        *(("agent.js", name) for name in ["<input>", "a\0", "a\n", "a?b", "a#b", "a\\b", "\u202e", "x" * 201]),
        *(("agent.py", name) for name in ["", "a-b", "a/b", ".a", "a.", "a..b", "1a", "./a.py", "@a", "x" * 201]),
        *(("agent.py", name) for name in ["class", "a.None", "\ufb01le"]),
        *(("agent.py", name) for name in ["os", "os.path", "json", "_json", "__main__", "test", "winreg"]),
    ],
)
@pytest.mark.parametrize("field", ["modules", "packages", "import_hooks"])
def test_bad_specifiers(agent: str, specifier: str, field: str) -> None:
    faults = faults_of(agent=agent, **{field: {specifier: "x"}}, package_integrity={specifier: B3})
    assert any(fault.startswith(f"$.{field}.{specifier}: ") for fault in faults)


def test_every_fault_of_modules_and_packages_at_once() -> None:
    faults = faults_of(
        modules={"a": 5, "./b": "b.js", "std:c": "", "d": "d.js"},
        packages={"b": "b.js", "d": "d.js", "e": "e.js", "f": "f.js"},
        package_integrity={"b": B3, "d": SRI, "e": "md5-x", "g": 7},
        expected_events={"k": None},
    )
    assert sorted(fault.partition(": ")[0] for fault in faults) == [
        "$.expected_events.k",
        "$.modules.a",
        "$.modules.std:c",
        "$.modules.std:c",
        "$.package_integrity.e",
        "$.package_integrity.f",
        "$.package_integrity.g",
        "$.package_integrity.g",
        "$.packages.b",
        "$.packages.d",
    ]
    assert "$.packages.b: is admitted already, as $.modules../b" in faults
    assert "$.package_integrity.f: required, and missing" in faults
    assert "$.package_integrity.g: there is none of that name in packages" in faults


def test_import_hooks_and_the_entry_module() -> None:
    files = {"import_hooks": {"a": "a.js"}, "import_hook_integrity": {"a": B3}}
    assert faults_of(**files, entry_module="a") == []
    assert faults_of(**files, modules={"./b.js": "b.js"}, entry_module="./b.js") == []
    assert faults_of(**files, entry_module="b") == ["$.entry_module: is not admitted: 'b'"]
    assert faults_of(import_hooks={"a": "a.js"}, import_hook_integrity={"c": "x"}, packages={"./a": "x"}) == [
        "$.import_hooks.a: is admitted already, as $.packages../a",
        "$.package_integrity../a: required, and missing",
        "$.import_hook_integrity.a: required, and missing",
        "$.import_hook_integrity.c: there is none of that name in import_hooks",
        "$.import_hook_integrity.c: is neither blake3:<64 hex digits> nor sha256-<base64>",
    ]


@pytest.mark.parametrize(
    "text", ["", "blake3:", B3[:-1], B3 + "0", B3.upper(), B3 + "\n", SRI[:-1], SRI + "=", "sha512-x", SRI.upper()]
)
def test_bad_integrity(text: str) -> None:
    assert any(
        fault.startswith("$.package_integrity.a: ")
        for fault in faults_of(packages={"a": "a.js"}, package_integrity={"a": text})
    )


def test_a_module_of_a_python_package_takes_the_package() -> None:
    (fault,) = faults_of(agent="agent.py", modules={"pkg.sub": "x.py"})
    assert fault == "$.modules.pkg.sub: the package pkg that it is in is not admitted"
    assert (
        faults_of(agent="agent.py", modules={"pkg.sub": "x"}, packages={"pkg": "y"}, package_integrity={"pkg": B3})
        == []
    )


def test_the_integrity_of_a_package() -> None:
    data = b"export const x = 1;\n"
    known = "sha256-tA3t3mCCi/YdH62/w7t+ouBCHpUR0i8bX7RK5boH27M="
    assert integrity_fault(data, digest(data)) is None
    assert integrity_fault(data, known) is None
    assert "and the policy says blake3:000" in str(integrity_fault(data, B3))
    assert f"has the hash {known}" in str(integrity_fault(data, SRI))


def test_where_a_specifier_leads() -> None:
    led = {
        ("util", "lib/a.js"): "util",
        ("./b.js", "lib/a.js"): "lib/b.js",
        ("../b.js", "lib/a.js"): "b.js",
        ("./c/../b.js", "a.js"): "b.js",
        ("../b.js", "a.js"): "../b.js",
        ("./b.js", "../lib/a.js"): "../lib/b.js",
        ("../../b.js", "../lib/a.js"): "../../b.js",
        ("./util", "<input>"): "util",
        ("/etc/passwd", "lib/a.js"): "/etc/passwd",
        ("./inner.js", "@scope/pkg"): "@scope/inner.js",
    }
    assert {(name, importer): resolve(name, importer) for name, importer in led} == led


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from(
    [
        *("schema_version", "agent", "audit_log", "profile", "context", "state", "budgets", "x"),
        *("modules", "packages", "package_integrity", "expected_events"),
    ]
)


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
