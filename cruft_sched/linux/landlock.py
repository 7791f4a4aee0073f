"""Landlock: which files this process can reach. Also no TCP, no abstract sockets and no signals to the outside, where
the kernel is new enough (linux/landlock.h; each ABI adds rights to the one before)."""

from __future__ import annotations

import ctypes
import errno
import os
import stat

from cruft_sched.linux.kernel import CompartmentError, call

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Iterable

_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
"""The rights that a rule on something that is no folder may have."""

_FILES_BY_ABI = {1: (1 << 13) - 1, 2: 1 << 13, 3: _TRUNCATE, 5: _IOCTL_DEV}
_TCP_SINCE, _TCP = 4, 0b11
_SCOPES_SINCE, _SIGNALS, _SCOPES = 6, 0b10, 0b11


def restrict(readable: Iterable[str]) -> int:
    """Leave this process, for ever, these files and folders to read, and nothing else. Returns the kernel's ABI.

    It must not be able to gain privileges by then. Raises CompartmentError where the kernel has no Landlock.
    """
    return _restrict(map(os.path.realpath, readable), _READ_FILE | _READ_DIR, tcp=_TCP, scopes=_SCOPES)


def keep_within(reachable: Iterable[str]) -> int:
    """Leave this process, and all that it starts, these files and folders to do anything with but to make devices,
    and no others. It keeps the network, and can send signals to what it starts alone, where the kernel can refuse
    the rest. Returns the kernel's ABI.

    A path that is gone, or that became a link, is left out. This process must not be able to gain privileges by then.
    Raises CompartmentError where the kernel has no Landlock.
    """
    return _restrict(reachable, ~(_MAKE_CHAR | _MAKE_BLOCK), tcp=0, scopes=_SIGNALS)


def version() -> int:
    """The kernel's ABI of Landlock; 0 where it has none."""
    try:
        return call("landlock_create_ruleset", None, 0, _VERSION)
    except OSError:
        return 0


REMEDY = (
    "use Linux 5.13 or newer with landlock among its security modules (the kernel's option lsm=), "
    'or allow less with "isolation": "process" in the policy'
)


def _restrict(paths: Iterable[str], rights: int, *, tcp: int, scopes: int) -> int:
    try:
        abi = call("landlock_create_ruleset", None, 0, _VERSION)
        handled = sum(added for since, added in _FILES_BY_ABI.items() if abi >= since)
        rules = _ruleset(abi, handled, tcp, scopes)
        for path in paths:
            _allow(rules, path, handled & rights)
        call("landlock_restrict_self", rules, 0)
        os.close(rules)
    except OSError as error:
        what = f"the kernel has no Landlock ({error.strerror} from {error.filename})"
        raise CompartmentError(what, REMEDY) from None
    return abi


def _ruleset(abi: int, files: int, tcp: int, scopes: int) -> int:
    words = [files]
    if abi >= _TCP_SINCE:
        words.append(tcp)
    if abi >= _SCOPES_SINCE:
        words.append(scopes)
    attributes = (ctypes.c_uint64 * len(words))(*words)
    return call("landlock_create_ruleset", ctypes.byref(attributes), ctypes.sizeof(attributes), 0)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in _GONE:
            return
        raise
    try:
        mode = os.fstat(opened).st_mode
        if stat.S_ISLNK(mode):
            return  # a rule is on what lies there: never on what a link leads to
        allowed = rights if stat.S_ISDIR(mode) else rights & _OF_A_FILE
        rule = allowed.to_bytes(8, "little") + opened.to_bytes(4, "little")  # packed: no padding
        call("landlock_add_rule", rules, _PATH_BENEATH, ctypes.c_char_p(rule), 0)
    finally:
        os.close(opened)


_GONE = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP)
