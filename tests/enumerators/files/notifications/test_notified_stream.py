"""A stream of S3 objects with lost, doubled and late events, a queue that is deleted, and killed drivers."""

from __future__ import annotations

import pytest

from flip27_source.enumerators.files.notifications import inbox
from tests.s3_server import S3Bucket
from tests.soak.notified_objects import notified


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
