"""The view of files; ids of stored splits; which conditions spare reading files."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path

import msgspec
import pytest

from flip27_source.coordination.batch_limits import Limits
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.state_tables.history import StoredSplit
from flip27_source.state_tables.predicates import EVERYTHING
from tests.driver.batches import Batches
from tests.snapshots.spark_logs import FileQuery
from tests.state_tables.test_views import rows
from tests.toy_sources import AssignsOnce, EchoReader


@pytest.mark.parametrize(
    "split",
    [
        FileSplit(path="/a.json", length=9, modified_us=1),
        FileSplit(path="/a.json", length=9, modified_us=1, start=3, end=6),
        FileSplit(path="/a.json", length=9, modified_us=1, start=3),
        FileSplit(path="/a.json", length=9, modified_us=1, end=3),
        FileSplit(path="/a.json", length=9, modified_us=1, version="v1"),
        FileSplit(path="/a.json", length=9, modified_us=1, start=3, end=6, version="v1"),
    ],
)
def test_a_stored_file_has_the_id_that_its_class_gives_it(split: FileSplit) -> None:
    assert StoredSplit.of(msgspec.Raw(msgspec.json.encode(split))).split_id == split.split_id


def test_a_split_without_a_known_id_is_named_by_its_json() -> None:
    assert StoredSplit.of(msgspec.Raw(b'{"shard": 3, "day": 1}')).split_id == '{"day":1,"shard":3}'
    assert StoredSplit.of(msgspec.Raw(b"[1, 2]")).split_id == "[1,2]"


def test_conditions_that_cannot_reduce_the_reading_change_nothing() -> None:
    assert EVERYTHING.narrowed("status", "=", ["live"]) == EVERYTHING
    assert EVERYTHING.narrowed("split_id", ">=", ["a"]) == EVERYTHING
    assert EVERYTHING.narrowed("checkpoint_id", "=", [None]) == EVERYTHING


def test_conditions_are_combined_with_and() -> None:
    both = EVERYTHING.narrowed("checkpoint_id", "=", [1, 2, 3]).narrowed("checkpoint_id", "=", [3, 4])
    assert [number for number in range(6) if both.checkpoint(number)] == [3]
    between = EVERYTHING.narrowed("checkpoint_id", ">", [1]).narrowed("checkpoint_id", ">=", [0])
    between = between.narrowed("checkpoint_id", "<", [4]).narrowed("checkpoint_id", "<=", [9])
    assert [number for number in range(6) if between.checkpoint(number)] == [2, 3]
    named = EVERYTHING.narrowed("split_id", "=", ["a", "b"]).narrowed("split_id", "=", ["b", "c"])
    assert [name for name in "abc" if named.split(name)] == ["b"]


def test_the_files_view_shows_which_batch_read_a_file_and_when(tmp_path: Path) -> None:
    query = FileQuery(tmp_path)
    query.land("a.txt", "b.txt")
    query.batch(now_ms=1_000)
    query.land("c.txt")
    query.batch(now_ms=2_000, committed=False)
    found = sorted(query.rows("files"), key=lambda row: str(row["path"]))
    assert [
        (Path(row["path"]).name, row["checkpoint_id"], row["batch_id"], row["status"]) for row in found
    ] == [("a.txt", 1, 0, "finished"), ("b.txt", 1, 0, "finished"), ("c.txt", 2, 1, "planned")]
    assert found[2]["planned_at"] == dt.datetime(1970, 1, 1, 0, 0, 2, tzinfo=dt.UTC)
    assert found[0]["modified_at"].timestamp() == pytest.approx(os.stat(found[0]["path"]).st_mtime, abs=1e-5)
    assert (found[0]["start"], found[0]["end"], found[0]["length"]) == (0, None, 6)


class Pushes(AssignsOnce[FileSplit]):
    """Assigns two files at once."""

    def splits(self) -> list[FileSplit]:
        return [FileSplit(path=path, length=2, modified_us=2**73) for path in ("/a.txt", "/b.txt")]


def test_a_file_held_back_by_a_limit_waits_and_is_left_out_if_a_checkpoint_is_selected() -> None:
    made = Batches(Pushes, EchoReader)
    made.batch(Limits(files=1))
    found = [(row["path"], row["checkpoint_id"], row["status"]) for row in rows("files", made)]
    assert found == [("/a.txt", 1, "planned"), ("/b.txt", None, "waiting")]
    assert [row["modified_at"] for row in rows("files", made)] == [None, None]  # in no year that Python has
    asked = EVERYTHING.narrowed("checkpoint_id", ">=", [1])
    assert [row["path"] for row in rows("files", made, asked)] == ["/a.txt"]


def test_a_checkpoint_counts_a_file_once_however_many_ranges_it_has(tmp_path: Path) -> None:
    query = FileQuery(tmp_path, maxPartitionBytes="1m")
    query.landing.mkdir()
    (query.landing / "large.txt").write_bytes(b"x" * 99 + b"\n" * (9 * 1024 * 1024))
    query.batch()
    (row,) = query.rows("checkpoints")
    assert row["files"] == 1
    assert row["splits"] > 1
    ranges = sorted((r["start"], r["end"]) for r in query.rows("files"))
    assert ranges[0][0] == 0
    assert [end for _, end in ranges[:-1]] == [start for start, _ in ranges[1:]]


def test_the_state_of_an_enumerator_of_files_is_json_with_segments_by_name(tmp_path: Path) -> None:
    query = FileQuery(tmp_path)
    query.land("a.txt")
    query.batch()
    (row,) = query.rows("checkpoints")
    assert isinstance(json.loads(row["state"]), dict)
