"""What many tests need: projects on disk, the installed program, records of any status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from cruft_sched.core.awaits import (
    InputAwait,
    InputPayload,
    TimerAwait,
    TimerPayload,
    ToolAwait,
    ToolOptions,
    ToolPayload,
)
from cruft_sched.core.manifest import AuditHead, Manifest, Status
from cruft_sched.core.outcomes import BudgetError, ChildError
from cruft_sched.ops.start import start
from cruft_sched.stores.file import FileStore

PROGRAM = str(Path(sys.executable).parent / "cruft")
HASH = "blake3:" + "0" * 64
NOW = 1_800_000_000_000
AUDIT_HEAD = AuditHead(run_id="job/turn-1", lines=2, head=HASH)

NAP = """
if (context.scheduler_resume) { emit({kind: "awake", resume: context.scheduler_resume}); close("rested"); }
else { emit({kind: "sleeping"}); scheduler.sleep(context.nap_ms ?? 25); }
"""


@dataclass
class StoppedClock:
    """A clock that a test sets."""

    now: int = NOW

    def now_ms(self) -> int:
        return self.now


@dataclass
class Ran:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def cruft(*arguments: str, env: dict[str, str] | None = None, cwd: str | None = None) -> Ran:
    """Run the installed program, as a shell would."""
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, check=False, env=env, cwd=cwd)
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def schedule(*arguments: str) -> Ran:
    """Run one command of `cruft agent schedule`."""
    return cruft("agent", "schedule", *arguments)


class Project:
    """An agent and its policy in a folder, and a store beside them."""

    def __init__(self, folder: Path, agent: str = NAP, name: str = "agent.js", **policy: Any) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.agent = folder / name
        self.agent.write_text(agent, encoding="utf-8")
        self.policy = folder / "agent-policy.json"
        self.write_policy(**({"agent": name} | policy))
        self.root = str(folder / "store")
        self.clock = StoppedClock()

    def write_policy(self, **fields: Any) -> None:
        self.policy.write_text(json.dumps({"schema_version": 1, "audit_log": "audit.jsonl", **fields}))

    def start(self, job_id: str = "job", **more: Any) -> FileStore:
        start(str(self.policy), self.clock, store_root=self.root, job_id=job_id, **more)
        return self.store

    @property
    def store(self) -> FileStore:
        return FileStore(self.root)

    def manifest_file(self, job_id: str = "job") -> Path:
        return Path(self.store.manifest_path(job_id))

    def audit(self) -> list[dict[str, Any]]:
        log = self.folder / "audit.jsonl"
        return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []

    def events(self) -> list[Any]:
        """What the agent emitted, in committed and in void runs alike."""
        return [line["event"] for line in self.audit() if line["type"] == "emit"]

    def put(self, manifest: Manifest) -> None:
        """Commit a manifest that a test made."""
        with self.store.hold(manifest.job_id) as held:
            held.commit(manifest)


def timer(deadline_ms: int = NOW + 1000, turn_id: str = "job/turn-1") -> TimerAwait:
    payload = TimerPayload(delay_ms=1000, deadline_ms=deadline_ms)
    return TimerAwait(id=f"{turn_id}/await", run_id=turn_id, created_ms=NOW, payload=payload)


def tool(name: str = "echo", args: bytes = b"{}") -> ToolAwait:
    payload = ToolPayload(tool=name, args=Raw(args), options=ToolOptions(), idempotency_key="k")
    return ToolAwait(id="job/turn-1/await", run_id="job/turn-1", created_ms=NOW, payload=payload)


def question() -> InputAwait:
    payload = InputPayload(
        kind="approval", payload=Raw(b"1"), token_hash=HASH, schema=Raw(b"null"), deadline_ms=None, on_timeout="resume"
    )
    return InputAwait(id="job/turn-1/await", run_id="job/turn-1", created_ms=NOW, payload=payload)


def in_status(manifest: Manifest, status: Status) -> Manifest:
    """A well-formed record of `status`: what `manifest`, just created, would be there."""
    shape: dict[Status, dict[str, Any]] = {
        "created": {},
        "running": {"active_turn_id": f"{manifest.job_id}/turn-1", "turn_cursor": 1},
        "awaiting_timer": {"awaits": (timer(),), "turn_cursor": 1, "last_turn_status": "suspended"},
        "awaiting_tool": {"awaits": (tool(),), "turn_cursor": 1, "last_turn_status": "suspended"},
        "awaiting_input": {"awaits": (question(),), "turn_cursor": 1, "last_turn_status": "suspended"},
        "completed": {"turn_cursor": 1, "last_turn_status": "completed", "result": Raw(b'"done"')},
        "failed": {"turn_cursor": 1, "last_turn_status": "failed", "error": ChildError(message="died")},
        "cancelled": {},
        "expired": {"error": BudgetError(budget="max_scheduler_turns", limit=1, attempted=2)},
    }
    return replace(manifest, status=status, **shape[status])


def bare_environment() -> dict[str, str]:
    """The environment of a command that a test starts, without what would slow it down."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
