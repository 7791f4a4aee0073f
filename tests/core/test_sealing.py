"""The seal: what it accepts, and everything that it does not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cruft_sched.core.sealing import StoreKey, digest
from cruft_sched.errors import SealError

KEY, OTHER = StoreKey(b"k" * 32), StoreKey(b"o" * 32)
RECORD = b'{"a":1,"text":"\xc3\xa9"}'


def test_a_sealed_record_is_json_whose_last_key_is_the_seal() -> None:
    sealed = KEY.seal(RECORD)
    assert list(json.loads(sealed)) == ["a", "text", "integrity"]
    assert json.loads(sealed)["integrity"].startswith(f"blake3-keyed:{KEY.id}:")
    assert KEY.unseal(sealed, "it") == RECORD


@given(st.binary(max_size=200))
def test_any_record_comes_back(inner: bytes) -> None:
    record = b"{" + inner + b"}"
    assert KEY.unseal(KEY.seal(record), "it") == record


@given(st.data())
def test_no_changed_byte_passes(data: st.DataObject) -> None:
    sealed = bytearray(KEY.seal(RECORD))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SealError):
        KEY.unseal(bytes(sealed), "it")


@given(st.integers(0, len(KEY.seal(RECORD)) - 1))
def test_no_torn_record_passes(length: int) -> None:
    with pytest.raises(SealError):
        KEY.unseal(KEY.seal(RECORD)[:length], "it")


def test_more_after_the_seal_does_not_pass() -> None:
    with pytest.raises(SealError, match="it has no seal"):
        KEY.unseal(KEY.seal(RECORD) + b"\n", "it")


def test_a_foreign_key_is_told_from_tampering() -> None:
    with pytest.raises(SealError, match="sealed under another key"):
        KEY.unseal(OTHER.seal(RECORD), "it")
    with pytest.raises(SealError, match="fails its seal"):
        KEY.unseal(KEY.seal(RECORD).replace(b'"a":1', b'"a":2'), "it")


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(SealError, match="31 bytes long and not 32"):
        StoreKey(b"x" * 31)


def test_digest_is_a_tagged_blake3() -> None:
    assert digest(b"") == "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
