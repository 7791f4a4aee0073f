"""Mask what a policy's `redact_fields` name, before it reaches the audit log, a manifest's outcome, or a message.

By key: in whatever an agent, a tool or a person gave, the value under such a key, at any depth, becomes `[redacted]`.
By value: every text, and every number as text, of MIN_CHARS or more that was seen under such a key is masked wherever
it occurs in other texts. Keys and words of the engine's own (`message`, `status`) are left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from cruft_sched.core.awaits import InputAwait, ToolAwait
from cruft_sched.core.manifest import Manifest, TimelineEntry
from cruft_sched.core.outcomes import NULL, Completed, Ending, Failed

MASK = "[redacted]"
MIN_CHARS = 4
MAX_SECRETS = 4096
"""With more of them, to look for each would take too long, and every text is masked whole."""

MAX_SECRET_CHARS = 1 << 20
"""The same, for their length in all."""

_MAY_BE_CUT = 100
"""A text that long may have been cut, and may end in the beginning of a secret."""

_CUT = "\n […]\n"
"""What stands in the middle of a stack that was too long."""

_FIXED = frozenset(("status", "disposition", "budget", "on_timeout", "event"))
_MASKED = Raw(msgspec.json.encode(MASK))


def redactor_of(manifest: Manifest) -> Redactor:
    """What masks a job's secrets. It knows those of its context, its state, and its tool's arguments."""
    redactor = Redactor(manifest.redact_fields, manifest.secrets)
    redactor.learn_all(manifest.context)
    redactor.learn_all(manifest.state)
    wait = manifest.wait
    call = wait.payload.then if isinstance(wait, InputAwait) else wait.payload if isinstance(wait, ToolAwait) else None
    if call is not None:
        redactor.learn("", call.args)
        redactor.learn("", call.approval.proposed if call.approval is not None else NULL)
    if wait is not None and wait.done is not None:
        redactor.learn("", wait.done.result)
    return redactor


class Redactor:
    """Knows the keys, and learns the values, of one job or run."""

    def __init__(self, fields: Sequence[str] = (), secrets: Sequence[str] | None = ()) -> None:
        """`secrets` are those that were learned before; None: there are too many."""
        self._fields = frozenset(fields)
        self._seen: set[str] = set()
        self._secrets: set[str] = set()
        """The forms that those take."""
        self._active = bool(fields) or secrets is None or bool(secrets)
        self._blind = secrets is None
        """Whether there is something that cannot be read, or there are too many secrets: then nothing is shown."""
        self._bytes = 0
        self._add(secrets or ())

    @property
    def secrets(self) -> tuple[str, ...] | None:
        """What was learned so far, for another one."""
        return None if self._blind else tuple(sorted(self._seen))

    def learn(self, key: str, value: Raw) -> None:
        """Remember what is secret in a value that stands under `key`."""
        if self._fields:
            self._gather(key, value)

    def learn_all(self, values: Mapping[str, Raw]) -> None:
        """The same, of a context or a state."""
        for key, value in values.items():
            self.learn(key, value)

    def text(self, text: str) -> str:
        """A text without what is secret in it."""
        if self._blind:
            return MASK
        if not self._secrets:
            return text
        for secret in self._secrets:
            if MASK in secret:
                text = text.replace(secret, MASK)
        return MASK.join(self._without(part) for part in text.split(MASK))

    def value(self, value: Raw) -> Raw:
        """A value that an agent, a tool or a person gave, masked by key and by value."""
        if not self._active:
            return value
        tree = self._gather("", value)
        if tree is None:
            return _MASKED
        return Raw(msgspec.json.encode(self._masked(tree[0])))

    def own(self, value: Any) -> Any:
        """A value of the engine's own: its keys stay, and its words; what others gave in it is masked."""
        match value:
            case _ if not self._active:
                return value
            case Raw():
                return self.value(value)
            case str():
                return self.text(value)
            case Struct():
                return replace(value, **self._named((name, getattr(value, name)) for name in value.__struct_fields__))
            case Mapping():
                return self._named(value.items(), fixed=_FIXED - {"event"})
        return value

    def ending(self, ending: Ending) -> Ending:
        """How a turn ended, as it is kept and shown. What it asks for is still to be done, so it stays."""
        match ending:
            case Completed(result=result):
                return replace(ending, result=self.value(result))
            case Failed(error=error):
                return replace(ending, error=self.own(error))
        return ending

    def manifest(self, manifest: Manifest) -> Manifest:
        """A job's record with `result`, `error` and `timeline` masked. The next turn needs the rest as it is, and what
        was learned. Nothing needs it when the job is over: then all is masked."""
        if not self._fields:
            return manifest
        self.learn_all(manifest.context)
        self.learn_all(manifest.state)
        masked = replace(
            manifest,
            secrets=self.secrets,
            result=self.value(manifest.result),
            error=self.own(manifest.error),
            timeline=tuple(map(self._entry, manifest.timeline)),
        )
        if not manifest.terminal:
            return masked
        return replace(masked, secrets=(), context=self._values(manifest.context), state=self._values(manifest.state))

    def _values(self, values: Mapping[str, Raw]) -> dict[str, Raw]:
        return {self.text(key): _MASKED if key in self._fields else self.value(values[key]) for key in values}

    def _entry(self, entry: TimelineEntry) -> TimelineEntry:
        given = (("tool", entry.tool), ("by", entry.by), ("error", entry.error), ("reason", entry.reason))
        return replace(entry, **{name: self.text(text) for name, text in given if text is not None})

    def _named(self, items: Iterable[tuple[str, Any]], fixed: frozenset[str] = _FIXED) -> dict[str, Any]:
        return {name: value if name in fixed else self.own(value) for name, value in items}

    def _gather(self, key: str, value: Raw) -> list[Any] | None:
        """Learn from a value, and return it read, in a list; None where it cannot be read."""
        import json  # here: only a policy that redacts pays for it

        try:
            tree = json.loads(bytes(value), parse_int=_number, parse_float=_number)
            msgspec.json.encode(tree)  # half a surrogate pair has no bytes
        except (ValueError, RecursionError):
            self._blind = True
            return None
        self._add(_texts(tree) if key in self._fields else self._under_fields(tree))
        return [tree]

    def _add(self, secrets: Iterable[str]) -> None:
        for secret in secrets:
            if len(secret) >= MIN_CHARS and secret not in self._seen:
                self._seen.add(secret)
                self._secrets.update(form for form in _forms(secret) if len(form) >= MIN_CHARS)
                self._bytes += len(secret)
        self._blind = self._blind or len(self._secrets) > MAX_SECRETS or self._bytes > MAX_SECRET_CHARS

    def _under_fields(self, tree: Any) -> Iterator[str]:
        todo = [tree]
        while todo:
            holder = todo.pop()
            if isinstance(holder, dict):
                for key, value in holder.items():
                    if key in self._fields:
                        yield from _texts(value)
                    else:
                        todo.append(value)
            elif isinstance(holder, list):
                todo += holder

    def _masked(self, tree: Any) -> Any:
        match tree:
            case dict():
                return {
                    self.text(key): _MASKED if key in self._fields else self._masked(value)
                    for key, value in tree.items()
                }
            case list():
                return [self._masked(value) for value in tree]
            case str():
                return self.text(tree)
            case Raw():
                number = bytes(tree).decode()
                return tree if self.text(number) == number else _MASKED
        return tree

    def _without(self, text: str) -> str:
        spans = sorted(span for secret in self._secrets if secret in text for span in _spans(secret, text))
        text = _masked_at(spans, text)
        if len(text) < _MAY_BE_CUT:
            return text
        head, cut, tail = text.partition(_CUT)
        return self._without_start_of_one(head) + cut + self._without_end_of_one(tail)

    def _without_start_of_one(self, text: str) -> str:
        """A text whose end was cut, maybe within a secret."""
        longest = max((_overlap(text, secret) for secret in self._secrets), default=0)
        return text[: len(text) - longest] + MASK if longest >= MIN_CHARS else text

    def _without_end_of_one(self, text: str) -> str:
        """A text whose beginning was cut."""
        longest = max((_overlap(secret, text) for secret in self._secrets), default=0)
        return MASK + text[longest:] if longest >= MIN_CHARS else text


def _overlap(left: str, right: str) -> int:
    """How many characters at the end of `left` are the beginning of `right`."""
    sizes = range(min(len(left), len(right)), MIN_CHARS - 1, -1)
    return next((size for size in sizes if left.endswith(right[:size])), 0)


def _spans(secret: str, text: str) -> Iterator[tuple[int, int]]:
    """Where a secret stands in a text, from and to."""
    at = text.find(secret)
    while at >= 0:
        yield at, at + len(secret)
        at = text.find(secret, at + 1)


def _masked_at(spans: list[tuple[int, int]], text: str) -> str:
    """A text with what is in these places masked. Places that overlap are one."""
    parts: list[str] = []
    end = 0
    for start, stop in spans:
        if start >= end:
            parts += [text[end:start], MASK]
        end = max(end, stop)
    return "".join(parts) + text[end:]


def _number(literal: str) -> Raw:
    return Raw(literal.encode())


def _texts(tree: Any) -> Iterator[str]:
    """Every text in a value, keys included, and every number as text."""
    todo = [tree]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            todo += [*one, *one.values()]
        elif isinstance(one, list):
            todo += one
        elif isinstance(one, str):
            yield one
        elif isinstance(one, Raw):
            yield bytes(one).decode()


def _forms(secret: str) -> Iterator[str]:
    """The ways in which a text comes up in another: as it is, line by line, and quoted as JSON or Python do it."""
    yield secret
    yield from (line.strip() for line in secret.splitlines())
    if not (secret.isascii() and secret.isalnum()):
        import json  # here: only a policy that redacts pays for it

        for quoted in (msgspec.json.encode(secret).decode()[1:-1], json.dumps(secret)[1:-1]):
            yield quoted
            yield msgspec.json.encode(quoted).decode()[1:-1]
        yield repr(secret)[1:-1]
        yield ascii(secret)[1:-1]
