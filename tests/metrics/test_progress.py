"""What is read from a progress event of Spark about the sources in it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from flip27_source.metrics import SourceProgress, read_progress
from tests.metrics.events import (
    FIRST,
    FIRST_OFFSET,
    INLINE_OFFSET,
    QUERY_ID,
    SECOND,
    SECOND_OFFSET,
    at,
    changed,
)


def only_source(progress: dict[str, Any]) -> SourceProgress:
    (source,) = read_progress(progress).sources
    return source


def test_a_batch_has_its_query_number_time_and_durations() -> None:
    batch = read_progress(SECOND)
    assert (batch.query_id, batch.name, batch.batch_id) == (QUERY_ID, "lines", 1)
    assert batch.at == at("01:37:07.843")
    assert (batch.duration_s, batch.phases) == (0.319, {"addBatch": 0.188, "latestOffset": 0.003})


def test_the_progress_of_a_source_comes_from_its_offset_and_its_report() -> None:
    assert only_source(SECOND) == SourceProgress(
        uid="files",
        checkpoint_id=2,
        is_new=True,
        rows=4,
        splits=2,
        files=2,
        bytes=8,
        by_status={"pending": 1, "waiting": 0, "live": 0, "finished": 4, "quarantined": 0, "ignored": 0},
        backlog_splits=1,
        slowest_subtask_s=0.141,
        retried_subtasks=1,
    )


def test_without_task_reports_their_fields_are_empty() -> None:
    source = only_source(FIRST)
    assert (source.slowest_subtask_s, source.retried_subtasks, source.max_event_time) == (None, None, None)


def test_an_offset_in_the_place_of_the_report_adds_no_gauge() -> None:
    """Spark before 4.2 asks for no report, and shows the newest offset there."""
    offset = FIRST["sources"][0]["endOffset"]
    assert only_source(changed(FIRST, latestOffset=offset)) == only_source(changed(FIRST, latestOffset=None))


def test_the_backlog_includes_splits_of_the_enumerator_and_splits_held_back_by_a_limit() -> None:
    assert only_source(changed(FIRST, summary={"waitingSplits": 4})).backlog_splits == 3 + 4


def test_counts_of_late_files_are_distinguished_from_gauges_of_an_author() -> None:
    source = only_source(
        changed(FIRST, summary={"filesLate": 2, "filesTooOld": 3, "filesOverwritten": 4, "partitions": 7})
    )
    assert (source.late_files, source.too_old_files, source.overwritten_files) == (2, 3, 4)
    assert source.gauges == {"partitions": 7}


def test_the_watermark_delay_of_a_backlog_is_in_seconds() -> None:
    source = only_source(changed(FIRST, summary={"smallestWatermarkDelayMs": 3_600_001, "lateSplits": 2}))
    assert (source.smallest_watermark_delay_s, source.late_splits, source.gauges) == (3600.001, 2, {})
    assert only_source(FIRST).smallest_watermark_delay_s is None


def test_a_horizon_is_a_time_and_paused_splits_are_counted() -> None:
    shown = {"eventTimeHorizon": "2026-11-21T01:00:00+00:00", "alignmentSlowest": "a", "pausedSplits": 2}
    source = only_source(changed(FIRST, summary=shown))
    assert (source.horizon, source.paused_splits, source.gauges) == (
        dt.datetime(2026, 11, 21, 1, tzinfo=dt.UTC), 2, {},
    )  # fmt: skip
    assert only_source(FIRST).horizon is None


def test_how_far_a_replay_is_behind_is_in_seconds_until_it_is_live() -> None:
    behind = changed(FIRST, summary={"replayBehindMs": 1500})
    assert (only_source(behind).replay_behind_s, only_source(behind).gauges) == (1.5, {})
    live = changed(FIRST, summary={"replayBehindMs": 1500}, report={"replayIsLive": 1})
    assert (only_source(live).replay_behind_s, only_source(live).gauges) == (None, {})


def test_only_numbers_are_gauges() -> None:
    assert only_source(changed(FIRST, summary={"region": "eu", "ready": True})).gauges == {}


def test_a_source_without_a_state_location_takes_its_uid_from_the_document_in_the_offset() -> None:
    assert only_source(changed(FIRST, endOffset=INLINE_OFFSET, latestOffset=None)).uid == "orders/eu"


def test_a_batch_for_another_source_adds_nothing_to_this_source() -> None:
    """Spark repeats the offset, with the summary of a batch that was already counted."""
    source = only_source(changed(SECOND, startOffset=SECOND_OFFSET, numInputRows=0))
    assert (source.is_new, source.splits, source.files, source.bytes, source.rows) == (False, 0, 0, 0, 0)
    assert (source.checkpoint_id, source.backlog_splits) == (2, 1)


@pytest.mark.parametrize(
    "offset",
    [
        5,
        None,
        "not an offset",
        {"orders": {"0": 23}},
        FIRST_OFFSET | {"format": 99},
        {"checkpoint": 0, "format": 1, "state": {"inline": {}}, "summary": {}},
    ],
    ids=["rate", "none", "text", "kafka", "newer", "initial"],
)
def test_a_source_of_another_format_or_before_its_first_checkpoint_is_ignored(offset: Any) -> None:
    assert read_progress(changed(FIRST, endOffset=offset)).sources == ()


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-11-21T01:00:00.000000+01:00", at("00:00:00")),
        ("2026-11-21T01:00:00.000000", at("01:00:00")),
        ("2026-11-21", at("00:00:00")),
        ("-0044-03-15", None),
    ],
)
def test_event_time_is_utc_unless_its_text_has_another_zone(text: str, time: dt.datetime | None) -> None:
    report = {"lastMaxEventTime": text}
    assert only_source(changed(SECOND, report=report)).max_event_time == time
