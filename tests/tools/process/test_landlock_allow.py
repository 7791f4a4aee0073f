"""Which paths are opened so that others stay shut: the rule itself, on trees of every shape, and on a real disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cruft_sched.core.reach import allow_list, ways
from cruft_sched.errors import DataError
from cruft_sched.tools.process import reach
from cruft_sched.tools.process.reach import reachable

NAME = st.sampled_from(["a", "b", "c", "ab", "a b", "ż", "-", "..."])
PATH = st.lists(NAME, min_size=0, max_size=4).map(lambda parts: "/" + "/".join(parts))
PATHS = st.frozensets(PATH, max_size=8)


def disk(paths: frozenset[str]) -> Callable[[str], set[str]]:
    """A tree that has these paths: what is in each of its folders."""

    def names(folder: str) -> set[str]:
        prefix = "/" if folder == "/" else folder + "/"
        return {path[len(prefix) :].split("/")[0] for path in paths if path.startswith(prefix) and path != prefix}

    return names


def within(path: str, top: str) -> bool:
    return path == top or path.startswith("/" if top == "/" else top + "/")


def above(path: str) -> set[str]:
    parts = path.split("/")[1:]
    return {"/" + "/".join(parts[:n]) for n in range(len(parts))}


@given(PATHS, PATHS)
def test_nothing_opened_leads_to_what_is_shut(shut: frozenset[str], there: frozenset[str]) -> None:
    opened = allow_list(shut, disk(there | shut))
    assert not [(one, closed) for one in opened for closed in shut if within(closed, one) or within(one, closed)]


@given(PATHS, PATHS)
def test_all_else_is_opened(shut: frozenset[str], there: frozenset[str]) -> None:
    opened = allow_list(shut, disk(there | shut))
    for path in there:
        reached = any(within(path, one) for one in opened)
        is_shut = any(within(path, closed) for closed in shut)
        on_the_way = any(path in above(closed) for closed in shut)
        assert reached != (is_shut or on_the_way)


@given(PATHS, PATHS)
def test_nothing_is_opened_twice(shut: frozenset[str], there: frozenset[str]) -> None:
    opened = allow_list(shut, disk(there | shut))
    assert not [(one, other) for one in opened for other in opened if one is not other and within(one, other)]


@given(PATHS, PATHS, PATH)
def test_shutting_more_opens_no_more(shut: frozenset[str], there: frozenset[str], more: str) -> None:
    before = allow_list(shut, disk(there | shut))
    after = allow_list(shut | {more}, disk(there | shut))
    assert all(any(within(one, other) for other in before) for one in after)


@given(PATHS, PATHS, PATH)
def test_what_appears_later_on_a_way_is_not_reached(shut: frozenset[str], there: frozenset[str], new: str) -> None:
    before = disk(there | shut)
    opened = allow_list(shut, before)
    folder, _, name = new.rpartition("/")
    if (folder or "/") in ways(shut) and name and name not in before(folder or "/"):
        assert not any(within(new, one) for one in opened)


@given(PATHS)
def test_a_way_that_cannot_be_listed_opens_nothing_in_it(shut: frozenset[str]) -> None:
    opened = allow_list(shut, lambda _folder: ())
    assert opened == ([] if shut else ["/"])


@given(PATHS)
def test_ways_are_what_lies_above(shut: frozenset[str]) -> None:
    assert ways(shut) == {one for path in shut - {"/"} for one in above(path)}


def test_nothing_shut_opens_all() -> None:
    assert allow_list((), lambda _folder: pytest.fail("nothing is to be listed")) == ["/"]


def test_the_root_shut_opens_nothing() -> None:
    assert allow_list({"/"}, lambda _folder: ["a"]) == []


def test_a_name_that_only_begins_alike_is_opened() -> None:
    assert allow_list({"/a/b"}, disk(frozenset({"/a/b", "/a/bc", "/ab"}))) == ["/a/bc", "/ab"]


def opens(path: Path, *shut: Path) -> bool:
    return any(within(os.path.realpath(path), one) for one in reachable(map(str, shut)))


def test_a_link_opens_nothing_and_shuts_what_it_leads_to(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "key").write_text("key")
    (real / "beside").write_text("")
    (tmp_path / "first").symlink_to("links/second")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "second").symlink_to(real)
    (tmp_path / "links" / "up").symlink_to(tmp_path)
    opened = reachable([str(tmp_path / "first" / "key")])
    below = {path for path in opened if within(path, str(tmp_path))}
    assert below == {str(real / "beside")}  # no link, and no folder from which one on the way could be changed


def test_a_missing_path_is_shut_before_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert not opens(tmp_path / "log" / "audit.jsonl", tmp_path / "log" / "audit.jsonl")
    assert not opens(tmp_path, tmp_path / "log" / "audit.jsonl")
    assert opens(tmp_path / "other", tmp_path / "log" / "audit.jsonl")


def test_dots_are_taken_as_the_kernel_takes_them(tmp_path: Path) -> None:
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "key").write_text("")
    (tmp_path / "far" / "key").write_text("")
    (tmp_path / "way").symlink_to("far/deep")
    path = tmp_path / "way" / ".." / "." / "key"  # far/key, not key
    assert opens(tmp_path / "key", path)
    assert not opens(tmp_path / "far" / "key", path)


def test_a_file_with_another_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("")
    os.link(tmp_path / "key", tmp_path / "second name")
    with pytest.raises(DataError, match="hard link"):
        reachable([str(tmp_path / "key")])


def test_a_circle_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").symlink_to("key")
    with pytest.raises(DataError, match="40 links"):
        reachable([str(tmp_path / "key")])


def test_too_much_beside_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "MAX_OPENED", 3)
    with pytest.raises(DataError, match="lie beside"):
        reachable([str(tmp_path / "key")])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could read a disk")
def test_root_is_opened_no_disk(tmp_path: Path) -> None:
    disks = [entry.path for entry in os.scandir("/dev") if Path(entry.path).is_block_device()]
    if not disks:
        pytest.skip("this machine shows no disks")
    opened = reachable([str(tmp_path)])
    assert not [(disk, one) for disk in disks for one in opened if within(disk, one)]
    assert "/dev/null" in opened
