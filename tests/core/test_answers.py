"""The schema of an answer: what is accepted, what is refused, and where the fault is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cruft_sched.core.answers import answer_fault, schema_fault

APPROVAL = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "note": {"type": "string", "maxLength": 5},
        "amounts": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 9}, "minItems": 1},
        "level": {"enum": ["low", 2, None]},
    },
    "required": ["approved"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "answer",
    [
        {"approved": True},
        {"approved": False, "note": "12345", "amounts": [1, 9, 3.0], "level": 2},
        {"approved": True, "level": None},
    ],
)
def test_accepted(answer: Any) -> None:
    assert schema_fault(APPROVAL) is None
    assert answer_fault(answer, APPROVAL) is None


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ([], "$: does not hold to type 'object'"),
        ({}, "$.approved: is required, and missing"),
        ({"approved": 1}, "$.approved: does not hold to type 'boolean'"),
        ({"approved": True, "note": "123456"}, "$.note: does not hold to maxLength 5"),
        ({"approved": True, "amounts": []}, "$.amounts: does not hold to minItems 1"),
        ({"approved": True, "amounts": [1, 0]}, "$.amounts[1]: does not hold to minimum 1"),
        ({"approved": True, "amounts": [True]}, "$.amounts[0]: does not hold to type 'integer'"),
        ({"approved": True, "level": False}, "$.level: does not hold to enum ['low', 2, None]"),
        ({"approved": True, "more": 1}, "$.more: is not allowed"),
    ],
)
def test_refused_with_the_path_of_the_first_fault(answer: Any, fault: str) -> None:
    assert answer_fault(answer, APPROVAL) == fault


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"pattern": "(a+)+$"}, "$.pattern: this keyword is not known here"),
        ({"$ref": "#"}, "$.$ref: this keyword is not known here"),
        ({"properties": {"a": {"format": "date"}}}, "$.properties.a.format: this keyword is not known here"),
        ({"items": {"type": "text"}}, "$.items.type: has the wrong form"),
        ({"type": []}, "$.type: has the wrong form"),
        ({"required": "a"}, "$.required: has the wrong form"),
        ({"minLength": -1}, "$.minLength: has the wrong form"),
        ({"minimum": True}, "$.minimum: has the wrong form"),
        ({"additionalProperties": 5}, "$.additionalProperties: a schema is an object or a boolean"),
        ([], "$: a schema is an object or a boolean"),
    ],
)
def test_faults_of_a_schema(schema: Any, fault: str) -> None:
    assert schema_fault(schema) == fault


def test_a_schema_that_is_nested_for_ever() -> None:
    schema: dict[str, Any] = {}
    for _ in range(30):
        schema = {"items": schema}
    assert "nested more than" in str(schema_fault(schema))


def test_numbers_and_truth_are_not_mixed_up() -> None:
    assert answer_fault(1.0, {"const": 1}) is None
    assert answer_fault(True, {"const": 1}) is not None
    assert answer_fault({"a": [1]}, {"enum": [{"a": [True]}]}) is not None
    assert answer_fault(1, True) is None
    assert answer_fault(1, False) == "$: is not allowed"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(list(APPROVAL)), inner, max_size=3),
    max_leaves=8,
)


@given(values, values)
def test_nothing_crashes_the_checks(schema: Any, answer: Any) -> None:
    if schema_fault(schema) is None:
        fault = answer_fault(answer, schema)
        assert fault is None or fault.startswith("$")
