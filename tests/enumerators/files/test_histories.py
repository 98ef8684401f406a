"""Random histories of files, and streams of objects under every kind of trouble: each row is read once.

``make soak`` plays thousands of such histories; these tests play the same few in every run.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from flip27_source.enumerators.files.notifications import inbox
from tests.s3_server import S3Bucket, new_bucket
from tests.slow_down import SlowDown, slow_down
from tests.soak.file_histories import History, histories
from tests.soak.notified_objects import notified
from tests.soak.object_stories import archived, overwritten_and_deleted
from tests.soak.random_files import play


@settings(max_examples=20, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(histories())
def test_each_row_is_read_once_whatever_happens_to_the_files_and_the_query(history: History) -> None:
    play(history)


@pytest.fixture
def proxy(_s3_endpoint: str) -> Iterator[SlowDown]:
    with slow_down(_s3_endpoint, seed=14, stubborn=0.1) as proxy:
        yield proxy


@pytest.fixture
def bucket(proxy: SlowDown) -> S3Bucket:
    return new_bucket(proxy.url)


@pytest.mark.slow
def test_every_version_that_could_be_read_is_read_once_despite_crashes_and_throttling(
    bucket: S3Bucket, proxy: SlowDown
) -> None:
    """Exactly the versions that were deleted or overwritten before they were read are listed as ignored."""
    outcome = overwritten_and_deleted(bucket, proxy, objects=1000, seed=27)
    assert outcome.is_exact, outcome
    assert outcome.kills >= 3
    assert {"list", "get", "put"} <= outcome.refused.keys()


@pytest.mark.slow
def test_each_object_is_archived_once_and_a_changed_object_stays_despite_crashes_and_throttling(
    bucket: S3Bucket, proxy: SlowDown
) -> None:
    outcome = archived(bucket, proxy, objects=60, seed=27)
    assert outcome.is_exact, outcome
    assert {"list", "get", "head", "copy", "delete"} <= outcome.refused.keys()


def test_every_object_is_read_once_whatever_happens_to_its_events(
    s3_bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "_SHORT_POLL_S", 0.0)
    outcome = notified(s3_bucket, objects=90, seed=27, round_objects=30)
    assert outcome.is_exact, outcome
    assert outcome.events_lost > 10
    assert outcome.by_listing >= outcome.events_lost
    assert outcome.kills.total() >= 2
    assert outcome.errors >= 1
