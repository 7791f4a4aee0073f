"""`readFile` and `listFiles` on real files: what they give, and all that they refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cruft_sched.core.awaits import DeniedError, WaitError
from cruft_sched.core.sealing import digest
from cruft_sched.tools.authority import Authority
from cruft_sched.tools.globs import matches
from cruft_sched.tools.perform import perform
from cruft_sched.tools.registry import TOOLS
from cruft_sched.tools.tool import Call
from tests.support import Project, cruft, schedule


def call(name: str, args: Any, authority: Authority, max_result_bytes: int = 1 << 20) -> Any:
    made = Call(
        args=args,
        timeout_ms=None,
        timeout_limit_ms=1000,
        idempotency_key="k",
        max_result_bytes=max_result_bytes,
        authority=lambda: authority,
    )
    outcome = perform(name, TOOLS[name], made).outcome
    return outcome if isinstance(outcome, WaitError) else json.loads(bytes(outcome))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root with what may be read, and beside it what may not."""
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "root"
    (root / "docs" / "deep").mkdir(parents=True)
    (root / "a.txt").write_text("żółw 🐢\n")
    (root / "docs" / "b.md").write_text("b")
    (root / "docs" / "deep" / "c.md").write_text("c")
    (root / "closed").write_text("closed")
    (root / "store").mkdir()
    (root / "store" / "key").write_text("key")
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "up").symlink_to(tmp_path)
    (root / "loop").symlink_to("loop")
    (root / "in").symlink_to("a.txt")
    (root / "docs" / "way").symlink_to("../docs")
    os.link(root / "closed", root / "hard")
    os.link(root / "store" / "key", root / "hard key")
    os.mkfifo(root / "fifo")
    (root / "binary").write_bytes(b"a\0b")
    (root / "latin").write_bytes(b"caf\xe9 au lait")
    return root


def opened(root: Path, **more: Any) -> Authority:
    closed = (str(root / "closed"), str(root / "store"), str(root / "store" / "key"))
    return Authority(read=(str(root),), closed=closed, **more)


HOSTILE = [
    *("", "/", "/etc/passwd", ".", "..", "../secret", "docs/../../secret", "./a.txt", "docs/./b.md", "docs//b.md"),
    *("docs/", "a.txt/", "a.txt/..", "//etc/passwd", "docs/..", "...", "....//secret", "..\\secret", "~/x", "~root"),
    *("out", "up", "up/secret", "up/root/a.txt", "loop", "loop/x", "in", "docs/way/b.md", "docs/way", "docs/way/way"),
    *("closed", "hard", "store/key", "store", "hard key", "fifo", "a.txt\0", "\0", "a\0/../secret", "x" * 4097),
    *("x" * 256, "é" * 200, "docs", "docs/deep", "\ud800", "/proc/self/environ", "proc/self/mem", "A.TXT", "a.txt "),
    *("binary", "latin", "%2e%2e/secret", "file:///etc/passwd", "docs/b.md/../../../secret", "..%00", "nope"),
]


@pytest.mark.parametrize("path", HOSTILE)
def test_a_hostile_path_reads_nothing(path: str, tree: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    refused = call("readFile", {"path": path}, opened(tree))
    assert isinstance(refused, WaitError), refused
    assert "secret" not in refused.message.replace(ascii(path[:200]), "")
    assert len(os.listdir("/proc/self/fd")) == before


DENIED = ["../secret", "/etc/passwd", "out", "up/secret", "in", "closed", "hard", "hard key", "store/key", "fifo", ""]


@pytest.mark.parametrize("path", DENIED)
def test_what_is_out_of_reach_is_a_denial(path: str, tree: Path) -> None:
    assert isinstance(call("readFile", {"path": path}, opened(tree)), DeniedError)


@pytest.mark.parametrize(
    "path", ["..", "/", "out", "up", "docs/way", "store", "a.txt", "nope", "docs/..", "\0", "fifo"]
)
def test_a_hostile_folder_lists_nothing(path: str, tree: Path) -> None:
    assert isinstance(call("listFiles", {"path": path}, opened(tree)), WaitError)


@pytest.mark.parametrize("name", ["readFile", "listFiles"])
@pytest.mark.parametrize(
    "args", [None, [], "a.txt", {"path": 5}, {"path": "a.txt", "offset": -1}, {"path": "a", "x": 1}]
)
def test_arguments_of_another_form(name: str, args: Any, tree: Path) -> None:
    refused = call(name, args, opened(tree))
    assert isinstance(refused, WaitError)
    assert "are refused: $" in refused.message


def test_a_root_within_what_is_closed_opens_nothing(tree: Path) -> None:
    authority = Authority(read=(str(tree / "store"),), closed=(str(tree),))
    assert isinstance(call("readFile", {"path": "key"}, authority), WaitError)
    assert isinstance(call("listFiles", {}, authority), WaitError)
    assert isinstance(call("readFile", {"path": "a.txt"}, Authority()), WaitError)


def test_a_file_is_read(tree: Path) -> None:
    page = call("readFile", {"path": "a.txt"}, opened(tree))
    assert page == {"path": "a.txt", "text": "żółw 🐢\n", "bytes": 13, "offset": 0, "next_offset": None}


@given(text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), limit=st.integers(4, 50))
def test_pages_are_the_whole_text(text: str, limit: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("root")
    (root / "a").write_bytes(text.encode())
    pages, offset = [], 0
    while offset is not None:
        page = call("readFile", {"path": "a", "offset": offset, "limit": limit}, Authority(read=(str(root),)))
        pages.append(page["text"])
        assert len(page["text"].encode()) <= limit
        offset = page["next_offset"]
    assert "".join(pages) == text


def test_a_page_fits_the_budget_however_it_is_escaped(tree: Path) -> None:
    (tree / "a.txt").write_text("\x01" * 100_000)
    page = call("readFile", {"path": "a.txt"}, opened(tree), 65_536)
    assert page["next_offset"] == len(page["text"]) > 5_000


def test_files_are_listed_page_by_page(tree: Path) -> None:
    names = ["a.txt", "binary", "docs/b.md", "docs/deep/c.md", "latin"]
    listed = call("listFiles", {}, opened(tree))
    assert ([entry["path"] for entry in listed["entries"]], listed["next"]) == (names, None)
    assert listed["entries"][0]["bytes"] == 13
    first = call("listFiles", {"limit": 2}, opened(tree))
    assert ([entry["path"] for entry in first["entries"]], first["next"]) == (names[:2], "binary")
    rest = call("listFiles", {"after": "binary"}, opened(tree))
    assert [entry["path"] for entry in rest["entries"]] == names[2:]
    assert [e["path"] for e in call("listFiles", {"path": "docs/deep"}, opened(tree))["entries"]] == ["docs/deep/c.md"]
    assert [e["path"] for e in call("listFiles", {"glob": "*.md"}, opened(tree))["entries"]] == names[2:4]


def test_globs_include_and_exclude(tree: Path) -> None:
    authority = opened(tree, include=("*.md", "*.txt"), exclude=("deep",))
    assert [e["path"] for e in call("listFiles", {}, authority)["entries"]] == ["a.txt", "docs/b.md"]
    assert isinstance(call("readFile", {"path": "docs/deep/c.md"}, authority), DeniedError)
    assert isinstance(call("readFile", {"path": "binary"}, authority), DeniedError)


@pytest.mark.parametrize(
    ("glob", "path", "of"),
    [
        ("*.py", "a.py", True),
        ("*.py", "lib/a.py", True),
        ("lib/*.py", "lib/a.py", True),
        ("lib/*.py", "lib/x/a.py", False),
        ("lib/**", "lib/x/a.py", True),
        ("**/a.py", "a.py", True),
        ("**/a.py", "lib/x/a.py", True),
        ("a?c", "a/c", False),
        ("[ab].py", "a.py", True),
        ("[!ab].py", "a.py", False),
        ("[^", "[^", True),
        ("[a-c]", "b", True),
        ("[a-c]", "-", False),
        ("**/x/**/y", "x/y", True),
        ("**/x/**/y", "a/x/b/c/y", True),
        ("**/x/y", "ax/y", False),
        ("docs/**/b.md", "docs/b.md", True),
        ("**a" * 300, "a" * 250, False),
        ("*a" * 300 + "b", "a" * 250, False),
        ("a.py", "axpy", False),
        ("*", ".hidden", True),
    ],
)
def test_globs(glob: str, path: str, of: bool) -> None:
    assert matches(glob, path) is of


def test_another_store_is_out_of_reach(tree: Path) -> None:
    for name in ("jobs", "objects"):
        (tree / "docs" / "other" / name).mkdir(parents=True)
    for name in ("lock", "key"):
        (tree / "docs" / "other" / name).write_text("key")
    assert isinstance(call("readFile", {"path": "docs/other/key"}, opened(tree)), DeniedError)
    listed = call("listFiles", {"path": "docs"}, opened(tree))
    assert [entry["path"] for entry in listed["entries"]] == ["docs/b.md", "docs/deep/c.md"]
    at_root = Authority(read=(str(tree / "docs" / "other"),), write=(str(tree / "docs" / "other"),))
    assert isinstance(call("readFile", {"path": "key"}, at_root), DeniedError)
    assert isinstance(call("listFiles", {}, at_root), DeniedError)
    assert isinstance(call("writeArtifact", {"path": "new", "text": "x"}, at_root), DeniedError)
    new = {"path": "docs/other/jobs/x/manifest.json", "text": "x"}
    assert isinstance(call("writeArtifact", new, writing(tree)), DeniedError)


def writing(root: Path) -> Authority:
    closed = (str(root / "closed"), str(root / "store"), str(root / "store" / "key"))
    return Authority(write=(str(root),), closed=closed)


def written(tree: Path) -> dict[str, bytes]:
    files = [path for path in tree.parent.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path): path.read_bytes() for path in files}


NOT_WRITTEN = [
    *("", "/", "/new", ".", "..", "../secret", "../new", "docs/../../new", "./new", "docs//new", "docs/", "docs/way"),
    *("out", "up", "up/new", "up/secret", "loop", "loop/new", "in", "docs/way/new", "closed", "hard", "store/new"),
    *("store/key", "hard key", "fifo", "docs", "new\0", "x" * 256, "\ud800", "/proc/self/mem", "a.txt/new"),
]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("path", NOT_WRITTEN)
def test_a_hostile_path_writes_nothing(path: str, overwrite: bool, tree: Path) -> None:
    before = written(tree)
    refused = call("writeArtifact", {"path": path, "text": "x", "overwrite": overwrite}, writing(tree))
    assert isinstance(refused, WaitError), refused
    assert written(tree) == before


def test_a_file_is_written_and_not_over_another(tree: Path) -> None:
    done = call("writeArtifact", {"path": "new/deep/file.txt", "text": "żółw"}, writing(tree))
    assert done == {"path": "new/deep/file.txt", "bytes": 7, "hash": digest("żółw".encode())}
    refused = call("writeArtifact", {"path": "a.txt", "text": "x"}, writing(tree))
    assert isinstance(refused, WaitError)
    assert "it exists: give overwrite: true" in refused.message
    assert (tree / "a.txt").read_text() == "żółw 🐢\n"
    assert call("writeArtifact", {"path": "a.txt", "text": "x", "overwrite": True}, writing(tree))["bytes"] == 1
    assert (tree / "a.txt").read_text() == "x"
    assert list(tree.rglob("*.tmp")) == []
    assert isinstance(call("writeArtifact", {"path": "x", "text": "x"}, Authority()), DeniedError)


KILL = """
import os, signal, sys
number, seen = int(sys.argv[1]), 0
def counted(real):
    def operation(*arguments, **options):
        global seen
        seen += 1
        if seen == number: os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    return operation
for name in ("open", "write", "fsync", "replace", "link", "unlink", "mkdir"):
    setattr(os, name, counted(getattr(os, name)))
from cruft_sched.tools.authority import Authority
from cruft_sched.tools import write_artifact
seen = 0
write_artifact._write("below/file", b"n" * 100, Authority(write=(sys.argv[2],)), overwrite=sys.argv[3] == "over")
"""


@pytest.mark.parametrize("how", ["over", "new"])
def test_a_kill_at_any_step_leaves_the_old_file_or_the_new_one(how: str, tmp_path: Path) -> None:
    number, code = 1, -9
    while code == -9:
        root = tmp_path / str(number)
        (root / "below").mkdir(parents=True)
        if how == "over":
            (root / "below" / "file").write_bytes(b"o" * 100)
        code = subprocess.run([sys.executable, "-c", KILL, str(number), str(root), how], check=False).returncode
        there = [path.read_bytes() for path in root.glob("below/file")]
        assert there in (([b"o" * 100],) if how == "over" else ([],)) or there == [b"n" * 100]
        number += 1
    assert (code, there) == (0, [b"n" * 100])
    assert number > 7


AGENTS = {
    "agent.js": """
const list = (await callTool("listFiles", {path: "notes"})).entries.map((e) => e.path);
const text = (await callTool("readFile", {path: "notes/one.txt"})).text;
const refused = [];
for (const path of ["agent-policy.json", "agent.js", "audit.jsonl", "store/key", "../x"])
  await callTool("readFile", {path}).catch((e) => refused.push(e.disposition));
let late = context.scheduler_resume;
if (typeof scheduler !== "undefined" && !late) scheduler.callTool("readFile", {path: "notes/one.txt"});
close({list, text, refused, late: late ? late.result.text : null});
""",
    "agent.py": """
listed = [e["path"] for e in call_tool("listFiles", {"path": "notes"})["entries"]]
text = call_tool("readFile", {"path": "notes/one.txt"})["text"]
refused = []
for path in ["agent-policy.json", "agent.py", "audit.jsonl", "store/key", "../x"]:
    try: call_tool("readFile", {"path": path})
    except ToolError as error: refused.append(error.disposition)
late = context.get("scheduler_resume")
if "scheduler" in globals() and not late: scheduler.call_tool("readFile", {"path": "notes/one.txt"})
close({"list": listed, "text": text, "refused": refused, "late": late and late["result"]["text"]})
""",
}


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_reads_its_notes_and_nothing_of_ours(name: str, tmp_path: Path) -> None:
    project = Project(tmp_path, AGENTS[name], name, tools=["readFile", "listFiles"], fs_read=["."])
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "one.txt").write_text("one")
    ran = cruft("agent", "run", "--policy", str(project.policy))
    expected = {"list": ["notes/one.txt"], "text": "one"}
    no_store_yet = ["denied", "denied", "denied", "error", "denied"]
    assert ran.json["result"] == expected | {"late": None, "refused": no_store_yet}
    project.start()
    for _ in range(2):
        assert schedule("tick", "job", "--store", project.root).code == 0
    job = schedule("status", "job", "--store", project.root).json
    assert job["result"] == expected | {"late": "one", "refused": ["denied"] * 5}
    denials = [line for line in project.audit() if line["type"] == "tool_denial"]
    assert len(denials) == 4 + 5 + 5
    assert denials[0]["args"] == {"path": "agent-policy.json"}
    assert denials[0]["message"] == "readFile: 'agent-policy.json': it is out of reach of any tool"


WRITERS = {
    "agent.js": """
const args = {path: "notes/one.txt", text: "one"};
const r = context.scheduler_resume;
if (r) close([r.result.bytes, r.error ?? null]);
else if (typeof scheduler === "undefined") close((await callTool("writeArtifact", args)).bytes);
else {
  const refused = await callTool("writeArtifact", args).catch((e) => e.disposition);
  emit({refused}); scheduler.callTool("writeArtifact", {...args, path: "notes/two.txt"});
}
""",
    "agent.py": """
args = {"path": "notes/one.txt", "text": "one"}
r = context.get("scheduler_resume")
if r: close([r["result"]["bytes"], r.get("error")])
elif "scheduler" not in globals(): close(call_tool("writeArtifact", args)["bytes"])
else:
    try: call_tool("writeArtifact", args)
    except ToolError as error: emit({"refused": error.disposition})
    scheduler.call_tool("writeArtifact", {**args, "path": "notes/two.txt"})
""",
}


@pytest.mark.parametrize("name", WRITERS)
def test_an_agent_writes_in_a_run_and_durably_in_a_job(name: str, tmp_path: Path) -> None:
    project = Project(tmp_path, WRITERS[name], name, tools=["writeArtifact"], fs_write=["out"])
    assert cruft("agent", "run", "--policy", str(project.policy)).json["result"] == 3
    project.start()
    for _ in range(2):
        assert schedule("tick", "job", "--store", project.root).code == 0
    assert schedule("status", "job", "--store", project.root).json["result"] == [3, None]
    assert project.events() == [{"refused": "denied"}]
    assert sorted(path.name for path in (tmp_path / "out" / "notes").iterdir()) == ["one.txt", "two.txt"]
