"""Live splits and their positions, as an offset and the command line show them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from flip27_source import Progress, SplitReader, YieldsProgress
from flip27_source.cli.state.commands import positions_shortened
from flip27_source.coordination.batch_limits import Limits
from flip27_source.snapshots.offsets import LONGEST_POSITION, readable_position
from tests.driver.batches import Batches
from tests.driver.test_backlog import LATEST, Topic
from tests.toy_sources import EchoReader, Item, Shelf


def positions(batches: Batches) -> dict[str, Any]:
    found = batches.logged["summary"]["positions"]
    assert isinstance(found, dict)
    return found


def test_the_offset_shows_the_position_of_each_live_split() -> None:
    LATEST.clear()
    LATEST.update({"orders-0": 10_000, "orders-1": 392})
    batches = Batches(Topic, EchoReader)
    batches.batch(Limits(rows=100))
    assert positions(batches) == {"orders-0": "start=50", "orders-1": "start=50"}
    batches.batch()
    assert positions(batches) == {"orders-0": "start=10000", "orders-1": "start=392"}


def test_only_the_first_twenty_of_many_splits_are_named_and_the_offset_stays_small() -> None:
    LATEST.clear()
    LATEST.update({f"{'topic' * 5}-{number:04}": 1_000_000 for number in range(1000)})
    batches = Batches(Topic, EchoReader)
    batches.batch()
    found = positions(batches)
    assert next(iter(found)) == f"{'topic' * 5}-0000"
    assert (len(found), found["..."]) == (21, 980)
    assert len(json.dumps(batches.logged)) < 4096


@dataclass(frozen=True, slots=True)
class Cursor:
    split_id: str
    at: str | None = None


class CursorShelf(Shelf):
    split_type = Cursor


class Cursors(YieldsProgress, SplitReader[Cursor]):
    """Reads one page, after which the position is a long cursor."""

    def read(self, split: Cursor) -> Iterator[Any]:
        if split.at is None:
            yield (split.split_id,)
            yield Progress(replace(split, at="ü" * 500))


def test_long_positions_and_texts_that_are_not_ascii_are_cut() -> None:
    batches = Batches(CursorShelf, Cursors, {"pollInterval": "0s"})
    names = [f"{number:02}" + "ö" * 300 for number in range(40)]
    batches.enumerator().shelf.extend(Cursor(name) for name in names)
    for number in range(30):
        batches.enumerator().context.metrics.gauge(f"{number:02}" + "ü" * 300, 10**18)
    batches.batch()
    batches.batch()
    assert all(len(name) <= LONGEST_POSITION for name in positions(batches))
    assert len(json.dumps(batches.logged)) < 4096


def test_fields_that_are_not_set_and_credentials_are_not_shown() -> None:
    stored = {"split_id": "a", "at": "https://me:secret@api/page?n=2", "last": None, "seen": [], "count": 3}
    assert readable_position(stored, {}) == "at=https://api/page?n=2 count=3"
    assert readable_position([1, 2], {}) == "[1,2]"


def test_fields_of_inner_values_are_shown_by_their_names() -> None:
    raw = {"split_id": "log", "chunk": None, "log": {"first": 500, "end": None, "rules": []}, "lag_bytes": 0}
    assert readable_position(raw, {}) == "log.first=500 lag_bytes=0"
    assert readable_position(raw, {"log.first": "lsn", "lag_bytes": "lag"}) == "lsn=500 lag=0"
    assert readable_position(raw, {"log": "binlog"}) == "binlog.first=500 lag_bytes=0"


class NamedCursors(CursorShelf):
    position_names: ClassVar = {"at": "cursor"}


def test_the_offset_shows_the_names_that_the_source_gives_fields() -> None:
    batches = Batches(NamedCursors, Cursors, {"pollInterval": "0s"})
    batches.enumerator().shelf.append(Cursor("a", at="page 7"))
    batches.batch()
    assert positions(batches) == {"a": "cursor=page 7"}


def test_a_source_without_live_splits_has_no_positions() -> None:
    batches = Batches(Shelf, EchoReader)
    batches.shelve("a")
    batches.batch()
    assert "positions" not in batches.logged["summary"]


def test_the_table_of_splits_shortens_positions_and_json_answers_keep_them_complete() -> None:
    row = {"split_id": "orders-0", "position": '{"split_id":"orders-0","start":50}'}
    other = {"split_id": "a", "position": None}
    given: dict[str, dict[str, str]] = {"here": {}, "there": {"start": "offset"}}
    shown = [positions_shortened([row | {"lineage": name}, other], given) for name in given]
    assert [[item["position"] for item in rows] for rows in shown] == [
        ["start=50", None],
        ["offset=50", None],
    ]
    assert row["position"] == '{"split_id":"orders-0","start":50}'


def test_progress_events_name_the_source() -> None:
    """Spark's own description of the source is only the address of a JVM object."""
    batches = Batches(Shelf, EchoReader, {"uid": "orders", "path": "s3://me:secret@bucket/orders"})
    batches.shelve("a")
    batches.batch()
    assert (batches.holder.report() or {})["source"] == "flip27[Shelf orders s3://bucket/orders]"


def test_a_source_whose_uid_is_its_enumerator_is_named_once() -> None:
    batches = Batches(Shelf, EchoReader)
    batches.enumerator().shelf.append(Item(split_id="a"))
    batches.batch()
    assert (batches.holder.report() or {})["source"] == "flip27[Shelf]"
