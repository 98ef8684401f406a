"""A stream of S3 objects under every kind of trouble at once: crashes, overwrites, deletions, SlowDown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.s3_server import S3Bucket, new_bucket
from tests.slow_down import SlowDown, slow_down
from tests.soak.object_stories import archived, overwritten_and_deleted


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


def test_each_object_is_archived_once_and_a_changed_object_stays_despite_crashes_and_throttling(
    bucket: S3Bucket, proxy: SlowDown
) -> None:
    outcome = archived(bucket, proxy, objects=60, seed=27)
    assert outcome.is_exact, outcome
    assert {"list", "get", "head", "copy", "delete"} <= outcome.refused.keys()
