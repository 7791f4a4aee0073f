"""Hashes of bound sources, and the seal that closes a record.

A sealed record is one JSON object whose last key is `integrity`:

    {…,"integrity":"blake3-keyed:<key id>:<64 hex>"}⏎

The hash covers every byte before `,"integrity":` and is keyed with a subkey of the store's key, so only a
holder of the key can have written the record. It is checked on the raw bytes, before anything is parsed.
"""

from __future__ import annotations

from blake3 import blake3

from cruft_sched.errors import SealError

KEY_BYTES = 32
SEAL_CONTEXT = "cruft-sched 2026-11 seal of a record"
TOKEN_CONTEXT = "cruft-sched 2026-11 token of an input"  # noqa: S105  # a context of derive_key, and public
KEY_ID_CONTEXT = "cruft-sched 2026-11 key id"

_OPEN = b',"integrity":"blake3-keyed:'
_KEY_ID_LENGTH = 8
_TAIL_LENGTH = len(_OPEN) + _KEY_ID_LENGTH + len(b":") + 64 + len(b'"}\n')


def digest(data: bytes) -> str:
    """`blake3:<64 hex>` over the raw bytes."""
    return f"blake3:{blake3(data).hexdigest()}"


class StoreKey:
    """What is derived from the store's key: the seal, and the tokens. The key itself is not kept."""

    def __init__(self, store_key: bytes) -> None:
        if len(store_key) != KEY_BYTES:
            raise SealError(
                f"the store's key is {len(store_key)} bytes long and not {KEY_BYTES}",
                "restore the key file from where it was saved",
            )
        self.id = blake3(store_key, derive_key_context=KEY_ID_CONTEXT).hexdigest(_KEY_ID_LENGTH // 2)
        self._subkey = blake3(store_key, derive_key_context=SEAL_CONTEXT).digest()
        self._token_key = blake3(store_key, derive_key_context=TOKEN_CONTEXT).digest()

    def token(self, uid: str, await_id: str, shown: bytes) -> str:
        """The token of an input: 32 hex digits that approve this wait of this job, and what was shown, alone.

        It is derived and not stored, so that a crash loses none.
        """
        text = f"{uid}\n{await_id}\n{digest(shown)}".encode()
        return blake3(text, key=self._token_key).hexdigest(16)

    def _hash(self, body: bytes) -> str:
        return blake3(body, key=self._subkey).hexdigest()

    def same(self, given: str, expected: str) -> bool:
        """Compare by keyed hashes, so that the time it takes says nothing (`hmac` would load OpenSSL: 4 ms)."""
        return self._hash(given.encode()) == self._hash(expected.encode())

    def seal(self, record: bytes) -> bytes:
        """Close a record: a JSON object in, the bytes of its file out."""
        body = record[:-1]
        return body + _OPEN + f'{self.id}:{self._hash(body)}"}}\n'.encode()

    def unseal(self, data: bytes, what: str) -> bytes:
        """The record of a sealed file, or SealError naming `what`, before a byte of it is parsed."""
        body, tail = data[:-_TAIL_LENGTH], data[-_TAIL_LENGTH:]
        if not (body.startswith(b"{") and tail.startswith(_OPEN) and tail.endswith(b'"}\n')):
            raise SealError(f"{what} has no seal: it is torn, or no record of this store", _RESTORE)
        key_id, _, seal = tail[len(_OPEN) : -len(b'"}\n')].partition(b":")
        if key_id != self.id.encode():
            raise SealError(
                f"{what} was sealed under another key than this store's, which is {self.id}",
                "put back the key that it was sealed with, or start the job anew",
            )
        if not self.same(seal.decode("ascii", "replace"), self._hash(body)):
            raise SealError(f"{what} fails its seal: it was changed by something other than cruft", _RESTORE)
        return body + b"}"


_RESTORE = "it was left as it is: restore it from a backup, or move it away and start the job anew"
