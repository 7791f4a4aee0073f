"""Ids: which are well-formed, and how each is derived from stable parts."""

from __future__ import annotations

from blake3 import blake3

from cruft_sched.errors import UsageError

MAX_JOB_ID_LENGTH = 128
JOB_ID_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-")


def check_job_id(job_id: str, what: str = "job id") -> str:
    """Return `job_id` if it is well-formed, else raise UsageError. Called wherever an id enters. A run of its own has
    an id of the same form."""
    if 1 <= len(job_id) <= MAX_JOB_ID_LENGTH and JOB_ID_CHARACTERS.issuperset(job_id) and job_id not in (".", ".."):
        return job_id
    raise UsageError(
        f"{what} {job_id[:MAX_JOB_ID_LENGTH]!a} is not allowed",
        "use 1 to 128 ASCII letters, digits, '.', '_', ':' or '-', other than '.' and '..'",
    )


def new_job_id(policy_hash: str, agent_hash: str, nonce: bytes) -> str:
    """An id for a job that was given none. The nonce keeps two starts of one policy apart."""
    digest = blake3(f"{policy_hash}\n{agent_hash}\n".encode() + nonce).hexdigest()
    return f"job-{digest[:16]}"


def turn_id(job_id: str, number: int) -> str:
    """The id of a job's n-th turn, counted from 1; also its run id in the audit log."""
    return f"{job_id}/turn-{number}"


def idempotency_key(uid: str, await_name: str, tool: str, args: bytes) -> str:
    """What names one call of a tool, the same however often it is tried. The job's random `uid` is in it, so a job
    started again under its old name makes new calls."""
    parts = (uid.encode(), await_name.encode(), tool.encode(), args)
    return blake3(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).hexdigest()


def await_id(turn: str) -> str:
    """The id of the await that a turn ended with. A turn asks for one at most."""
    return f"{turn}/await"
