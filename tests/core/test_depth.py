"""How deep JSON is, told from its text."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from cruft_sched.core.depth import too_deep


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


values = st.recursive(
    st.none() | st.text('[]{}"\\a,:', max_size=8) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('[]{}"\\', max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(values, st.integers(0, 6))
def test_it_is_what_a_parser_would_find(value: object, levels: int) -> None:
    assert too_deep(json.dumps(value).encode(), levels) == (depth(value) > levels)


@given(st.binary(max_size=50))
def test_no_bytes_crash_it(data: bytes) -> None:
    assert too_deep(data, 0) in (True, False)


def test_many_values_side_by_side_are_not_deep() -> None:
    assert not too_deep(json.dumps([{"a": [1]}] * 10_000).encode())
