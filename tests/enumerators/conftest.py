"""A bucket on an S3 server of this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.s3_server import S3Bucket, new_bucket, s3_endpoint


@pytest.fixture(scope="session")
def _s3_endpoint() -> Iterator[str]:
    with s3_endpoint() as url:
        yield url


@pytest.fixture
def s3_bucket(_s3_endpoint: str) -> S3Bucket:
    """An empty bucket of its own for each test."""
    return new_bucket(_s3_endpoint)
