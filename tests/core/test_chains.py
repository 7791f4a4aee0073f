"""The chains of an audit log: whatever is done to its lines is found, and the right line is named."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cruft_sched.core.audit import Chain, void_line
from cruft_sched.core.chains import Fault, Place, Verifier, head_fault

Lines = list[bytes]


def run_lines(run_id: str, uid: str | None, events: int, *, ended: bool = True) -> Lines:
    chain = Chain(run_id, uid)
    lines = [chain.line("run_start", 1, {})]
    lines += [chain.line("emit", 2 + n, {"event": {"n": n}}) for n in range(events)]
    if ended:
        lines.append(chain.line("run_end", 9, {"status": "ok"}))
    return [line[:-1] for line in lines]


def verify(lines: Lines, *, last_is_whole: bool = True) -> tuple[Fault | None, Verifier]:
    verifier = Verifier()
    for number, line in enumerate(lines, 1):
        verifier.add(Place(0, number), line, whole=last_is_whole or number < len(lines))
    return verifier.finish(), verifier


def found(lines: Lines, **more: bool) -> tuple[int, str] | None:
    fault, _ = verify(lines, **more)
    return None if fault is None else (fault.place.line, fault.why)


@st.composite
def logs(draw: st.DrawFn) -> tuple[Lines, list[int]]:
    """A log of several runs, mixed at random, with two stores' runs of one id among them; and the numbers of the lines
    of one of its runs, of four lines at least."""
    runs = [run_lines(f"job-{n // 2}/turn-1", f"uid-{n}", draw(st.integers(2, 5))) for n in range(4)]
    order = draw(st.permutations([n for n, run in enumerate(runs) for _ in run]))
    left = [list(run) for run in runs]
    log = [left[n].pop(0) for n in order]
    victim = draw(st.integers(0, 3))
    return log, [at for at, n in enumerate(order) if n == victim]


LOGS = logs()


@given(LOGS)
def test_an_untouched_log_holds(log: tuple[Lines, list[int]]) -> None:
    fault, verifier = verify(log[0])
    assert fault is None
    assert [(run.status, run.void, run.broken) for run in verifier.runs] == [("ok", False, None)] * 4
    assert {run.uid for run in verifier.runs} == {"uid-0", "uid-1", "uid-2", "uid-3"}


@given(LOGS, st.data())
def test_an_edited_line_is_named(log: tuple[Lines, list[int]], data: st.DataObject) -> None:
    lines, mine = log
    at = data.draw(st.sampled_from(mine[:-1]))  # nothing follows from the last one
    entry = json.loads(lines[at])
    fields = ["at_ms", "type", "more"] if at == mine[0] else ["at_ms", "type", "more", "run_id", "uid"]
    field = data.draw(st.sampled_from(fields))
    entry[field] = data.draw(st.sampled_from([7, "emitted"])) if field != "at_ms" else 77
    lines[at] = json.dumps(entry, separators=(",", ":")).encode()
    assert (found(lines) or (0,))[0] == at + 1


@given(LOGS, st.data())
def test_an_edited_link_is_named(log: tuple[Lines, list[int]], data: st.DataObject) -> None:
    lines, mine = log
    at = data.draw(st.sampled_from(mine[1:-1]))
    entry = json.loads(lines[at])
    entry["prev"] = "blake3:" + "0" * 64
    lines[at] = json.dumps(entry, separators=(",", ":")).encode()
    assert found(lines) == (at + 1, "edited")


@given(LOGS, st.data())
def test_a_cut_line_is_missed_at_the_next_one(log: tuple[Lines, list[int]], data: st.DataObject) -> None:
    lines, mine = log
    which = data.draw(st.integers(0, len(mine) - 2))
    del lines[mine[which]]
    assert found(lines) == (mine[which + 1], "missing")  # it has moved up by one


@given(LOGS, st.data())
def test_the_first_lines_of_a_run_are_missed(log: tuple[Lines, list[int]], data: st.DataObject) -> None:
    lines, mine = log
    cut = data.draw(st.integers(1, len(mine) - 1))
    kept = [line for at, line in enumerate(lines) if at not in mine[:cut]]
    assert found(kept) == (mine[cut] - cut + 1, "missing")


@given(LOGS, st.data())
def test_swapped_lines_are_named_at_the_first(log: tuple[Lines, list[int]], data: st.DataObject) -> None:
    lines, mine = log
    left, right = sorted(data.draw(st.sets(st.sampled_from(mine), min_size=2, max_size=2)))
    lines[left], lines[right] = lines[right], lines[left]
    assert found(lines) == (left + 1, "reordered")


@given(LOGS, st.data())
def test_a_repeated_line_is_named_at_its_second_place(log: tuple[Lines, list[int]], data: st.DataObject) -> None:
    lines, mine = log
    at = data.draw(st.sampled_from(mine))
    to = data.draw(st.integers(at + 1, len(lines)))
    lines.insert(to, lines[at])
    assert found(lines) == (to + 1, "duplicated")


@given(LOGS, st.data())
def test_a_torn_line_is_named(log: tuple[Lines, list[int]], data: st.DataObject) -> None:
    lines, mine = log
    at = data.draw(st.sampled_from(mine))
    lines[at] = lines[at][: data.draw(st.integers(1, len(lines[at]) - 1))]
    assert found(lines) == (at + 1, "torn")


@given(st.integers(1, 200))
def test_a_torn_last_line_is_named(length: int) -> None:
    lines = run_lines("job/turn-1", "u", 3)
    assert found([*lines[:-1], lines[-1][:length]], last_is_whole=False) == (5, "torn")


def test_a_run_without_its_end_is_unfinished_and_not_broken() -> None:
    fault, verifier = verify(run_lines("job/turn-1", "u", 3, ended=False))
    assert (fault, verifier.runs[0].status, verifier.runs[0].lines) == (None, None, 4)


@pytest.mark.parametrize("torn", [b'{"type":"emit","run_id":"job/turn-1","se', b'{"ty', b"\0\0\0"])
def test_what_a_crash_leaves_of_a_void_run_is_passed_over(torn: bytes) -> None:
    void = void_line("job/turn-1", "u", 5)[:-1]
    started = run_lines("job/turn-1", "u", 2, ended=False)
    fault, verifier = verify([*started, torn, b"", void, *run_lines("job/turn-2", "u", 1)])
    assert fault is None
    assert [run.void for run in verifier.runs] == [True, False]
    assert found([*started, torn, *run_lines("job/turn-2", "u", 1)]) == (4, "torn")


def test_a_void_run_is_that_of_one_store() -> None:
    runs = [run_lines("job/turn-1", uid, 1) for uid in ("a", "b")]
    _, verifier = verify([*runs[0], *runs[1], void_line("job/turn-1", "b", 5)[:-1]])
    assert [(run.uid, run.void) for run in verifier.runs] == [("a", False), ("b", True)]


def test_a_line_that_is_made_a_void_line_hides_nothing() -> None:
    lines = run_lines("job/turn-1", "u", 3)
    lines[2] = lines[2].replace(b'"emit"', b'"run_void"')
    assert found(lines) == (3, "edited")


def test_what_follows_the_end_is_named() -> None:
    chain = Chain("r")
    lines = [chain.line(kind, 1, {})[:-1] for kind in ("run_start", "run_end", "emit")]
    assert found(lines) == (3, "after_end")


def test_a_line_whose_number_was_edited_is_named() -> None:
    for number in (0, 1, 4, 9):
        lines = run_lines("r", None, 4)
        lines[2] = lines[2].replace(b'"seq":2', b'"seq":%d' % number)
        assert found(lines) == (3, "edited")


@pytest.mark.parametrize(("cut", "why"), [(1, "cut"), (2, "cut"), (0, None)])
def test_only_the_head_tells_of_cut_last_lines(cut: int, why: str | None) -> None:
    chain = Chain("job/turn-1", "u")
    lines = [chain.line(kind, 1, {})[:-1] for kind in ("run_start", "emit", "run_end")]
    fault, verifier = verify(lines[: len(lines) - cut])
    assert fault is None
    told = head_fault(verifier.named("job/turn-1"), "u", chain.head)
    assert told == (None if why is None else Fault(Place(0, 3 - cut), "cut"))
    assert head_fault(verifier.named("job/turn-1"), "another", chain.head) == "absent"
    assert head_fault([], "u", chain.head) == "absent"


def test_the_head_tells_of_an_edited_last_line_and_of_a_void_run() -> None:
    chain = Chain("r", "u")
    lines = [chain.line(kind, 1, {})[:-1] for kind in ("run_start", "run_end")]
    edited = [lines[0], lines[1].replace(b'"at_ms":1', b'"at_ms":2')]
    _, verifier = verify(edited)
    assert head_fault(verifier.runs, "u", chain.head) == Fault(Place(0, 2), "edited")
    _, verifier = verify([*lines, void_line("r", "u", 5)[:-1]])
    assert head_fault(verifier.runs, "u", chain.head) == Fault(Place(0, 2), "void")
