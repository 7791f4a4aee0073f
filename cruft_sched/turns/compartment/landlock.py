"""Landlock: which files this process can reach. Also no TCP, no abstract sockets and no signals to the outside, where
the kernel is new enough (linux/landlock.h; each ABI adds rights to the one before)."""

from __future__ import annotations

import ctypes
import os

from cruft_sched.turns.compartment.kernel import CompartmentError, call

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Iterable

_VERSION = 1
_PATH_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILES_BY_ABI = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_TCP_SINCE, _TCP = 4, 0b11
_SCOPES_SINCE, _SCOPES = 6, 0b11


def restrict(readable: Iterable[str]) -> int:
    """Leave this process, for ever, these files and folders to read, and nothing else. Returns the kernel's ABI.

    It must not be able to gain privileges by then. Raises CompartmentError where the kernel has no Landlock.
    """
    try:
        abi = call("landlock_create_ruleset", None, 0, _VERSION)
        rules = _ruleset(abi)
        for path in readable:
            _allow_reading(rules, path)
        call("landlock_restrict_self", rules, 0)
        os.close(rules)
    except OSError as error:
        what = f"the kernel has no Landlock ({error.strerror} from {error.filename})"
        raise CompartmentError(what, REMEDY) from None
    return abi


REMEDY = (
    "use Linux 5.13 or newer with landlock among its security modules (the kernel's option lsm=), "
    'or allow less with "isolation": "process" in the policy'
)


def _ruleset(abi: int) -> int:
    files = sum(rights for since, rights in _FILES_BY_ABI.items() if abi >= since)
    words = [files]
    if abi >= _TCP_SINCE:
        words.append(_TCP)
    if abi >= _SCOPES_SINCE:
        words.append(_SCOPES)
    attributes = (ctypes.c_uint64 * len(words))(*words)
    return call("landlock_create_ruleset", ctypes.byref(attributes), ctypes.sizeof(attributes), 0)


def _allow_reading(rules: int, path: str) -> None:
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    rights = _READ_FILE | _READ_DIR if os.path.isdir(path) else _READ_FILE
    rule = rights.to_bytes(8, "little") + opened.to_bytes(4, "little")  # packed: no padding
    call("landlock_add_rule", rules, _PATH_BENEATH, ctypes.c_char_p(rule), 0)
    os.close(opened)
