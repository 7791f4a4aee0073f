"""Python's values as JSON text and back, and frozen: what a Python agent gives away and is given.

A value is copied on its way, and what JSON cannot hold is refused rather than bent.
"""

from __future__ import annotations

from _json import encode_basestring, make_encoder, make_scanner  # the json package over it costs 15 ms

TYPE_CHECKING = False  # the name that type checkers know; importing typing would cost the child 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


def to_json(value: object, what: str) -> str:
    """The JSON of a value, which a parser would give back as it was."""
    _check_keys(value, what)
    try:
        # The first argument remembers where the encoder is, to see a circle, so it serves one call only.
        encode = make_encoder({}, _no_json, encode_basestring, None, ":", ",", False, False, False)
        text = "".join(encode(value, 0))
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} holds half a surrogate pair, which is no text") from None
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{what} has no JSON form: {error}") from None
    return text


def _no_json(value: object) -> NoReturn:
    raise TypeError(f"{type(value).__name__} is none of its types")


def _check_keys(value: object, what: str) -> None:
    """Refuse a key that is no text: the encoder would make one of it, and the agent would not find it again."""
    seen: set[int] = set()
    todo: list[Any] = [value]
    while todo:
        holder = todo.pop()
        seen.add(id(holder))
        is_dict = isinstance(holder, dict)
        for key in holder if is_dict else ():
            if not isinstance(key, str):
                raise TypeError(f"{what} has a key that is no str: {key!r:.100}")
        inner = holder.values() if is_dict else holder if isinstance(holder, list | tuple) else ()
        todo += [item for item in inner if isinstance(item, dict | list | tuple) and id(item) not in seen]


class _Plain:
    """What the scanner asks to be told: JSON by the letter, and Python's own types."""

    strict, object_hook, object_pairs_hook, parse_float, parse_int, parse_constant = True, None, None, float, int, float


_scan: Callable[[str, int], tuple[Any, int]] = make_scanner(_Plain)  # type: ignore[arg-type]  # typeshed asks for more


def parse(text: str) -> Any:
    return _scan(text.lstrip(), 0)[0]


def _refuse(*_args: object, **_more: object) -> NoReturn:
    raise TypeError("the context is frozen")


def _frozen_kind(base: type) -> type:
    """A kind of dict or list that cannot be changed. A copy of it, also a deep one, is a plain one again."""
    refused = {name: _refuse for name in _MUTATORS.split() if hasattr(base, name)}
    members = {"__slots__": (), "__reduce__": lambda self: (base, (base(self),)), **refused}
    return type(f"frozen_{base.__name__}", (base,), members)


_MUTATORS = (
    "__init__ __setitem__ __delitem__ __iadd__ __imul__ __ior__ "
    "append clear extend insert pop popitem remove reverse setdefault sort update"
)
_FROZEN: dict[type[Any], Any] = {dict: _frozen_kind(dict), list: _frozen_kind(list)}


def deep_freeze(value: object) -> object:
    """The same value, frozen at every depth. Not recursive: a tool's result may be nested deeper than our stack."""
    root = [value]
    todo: list[Any] = [root]
    while todo:
        holder = todo.pop()
        base: Any = dict if isinstance(holder, dict) else list
        for place, inner in list(holder.items() if base is dict else enumerate(holder)):
            kind = _FROZEN.get(type(inner))
            if kind is not None:
                frozen = kind.__new__(kind)
                kind.__base__.__init__(frozen, inner)
                base.__setitem__(holder, place, frozen)
                todo.append(frozen)
    return root[0]
