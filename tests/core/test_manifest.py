"""The record: round trips, and what is refused though its seal holds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cruft_sched.core import manifest as manifests
from cruft_sched.core.manifest import STATUSES, Status
from cruft_sched.core.replay import replay
from cruft_sched.errors import DataError
from tests.core.test_lifecycle import BLANK
from tests.support import in_status


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_comes_back(status: Status) -> None:
    job = in_status(BLANK, status)
    assert manifests.decode(manifests.encode(job), "job") == job


def refusal(**fields: Any) -> str:
    record = json.loads(manifests.encode(BLANK)) | fields
    with pytest.raises(DataError) as error:
        manifests.decode(json.dumps(record).encode(), "job")
    assert error.value.exit_code == 65
    return error.value.what


def test_a_record_from_before_there_were_modules() -> None:
    record = json.loads(manifests.encode(BLANK))
    del record["bound"]
    assert manifests.decode(json.dumps(record).encode(), "job") == BLANK


def test_a_newer_schema() -> None:
    assert refusal(schema_version=2, new_field=1) == (
        "the manifest of job job has schema_version 2, and this cruft reads 1"
    )


def test_another_jobs_manifest() -> None:
    assert refusal(job_id="other") == "the manifest of job job is that of job 'other'"


def test_a_field_that_nobody_knows() -> None:
    assert "not well-formed" in refusal(extra=1)


def test_a_record_of_another_type() -> None:
    assert "not well-formed" in refusal(type="something")


def test_no_json() -> None:
    with pytest.raises(DataError, match="not JSON"):
        manifests.decode(b"{nope}", "job")


def test_replay_is_of_the_manifest_alone() -> None:
    answer = replay(in_status(BLANK, "awaiting_timer"))
    assert answer.terminal is False
    assert answer.claim_boundary.source == "scheduler_manifest"
    assert answer.claim_boundary.per_turn_audit == "not_reconstructed_by_this_replay_slice"
    assert answer.claim_boundary.raw_js_continuation == "not_claimed"
