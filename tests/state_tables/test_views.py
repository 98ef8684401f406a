"""Views: what stored state contains about checkpoints, splits and reports, without the code of authors."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from flip27_source.coordination.batch_limits import Limits
from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerator_mixins import PerformsActions
from flip27_source.enumerators.sequence import SequenceEnumerator
from flip27_source.errors import CorruptStateError
from flip27_source.events import SourceEvent
from flip27_source.snapshots.failure_counts import FailureLog, FailureRecord
from flip27_source.snapshots.locations import Lineage, SparkBatch
from flip27_source.snapshots.offsets import Offset
from flip27_source.snapshots.store import MemoryStore
from flip27_source.state_tables.history import History
from flip27_source.state_tables.predicates import EVERYTHING, Predicate
from flip27_source.state_tables.views import VIEWS
from tests.driver.batches import Batches
from tests.driver.test_delayed_actions import Removes
from tests.driver.test_ranges_read_again import Numbers
from tests.driver.test_reports import SERVER, Endpoints, Pages
from tests.toy_sources import MIB, AllAtOnce, EchoReader, Fragile, Item, Shelf


@dataclass(frozen=True, slots=True)
class Seen(SourceEvent):
    row: str


class Listens(Shelf):
    def handle_source_event(self, subtask_id: int, event: Seen) -> None:
        pass


class KeepsReturned(Shelf):
    """Drops splits that are given back."""

    def add_splits_back(self, splits: Any, subtask_id: int) -> None:
        pass


class Archives(PerformsActions[str], Shelf):
    """Archives every finished split once the test allows it."""

    may_go: ClassVar[threading.Event] = threading.Event()

    def notify_splits_finished(self, checkpoint_id: int, splits: Any) -> None:
        for split in splits:
            self.context.perform_after_completion(f"archive {split.split_id}")

    def perform(self, action: str) -> None:
        self.may_go.wait(20)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    SERVER.clear()
    Fragile.mend()
    Numbers.broken.clear()
    Archives.may_go.clear()
    yield
    Archives.may_go.set()


class ReadingStore(MemoryStore):
    """Records what was read, and can lose files just before they are read."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.vanishing: dict[str, set[str]] = {}
        self.unreadable: set[str] = set()

    def read(self, name: str, limit: int | None = None) -> bytes:
        self.opened.append(name)
        for gone in self.vanishing.pop(name, ()):
            del self.files[gone]
        return super().read(name if name not in self.unreadable else "nothing", limit)

    def documents(self) -> list[str]:
        return sorted(name for name in self.files if "/checkpoints/" in name)

    def opened_documents(self) -> list[int]:
        names = (name.rpartition("/")[2] for name in self.opened if "/checkpoints/" in name)
        return [int(name.partition("-")[0]) for name in names]


def lineage_of(batches: Batches) -> str:
    return str(Offset.from_json(batches.logged).lineage)


def history(batches: Batches, committed: int | None = None) -> History:
    """Return the stored history; ``committed`` is the newest batch in the commit log of Spark."""
    name = lineage_of(batches)
    spark = None
    if committed is not None:
        offset = Offset.from_json(batches.logged)
        assert offset.name is not None
        spark = (SparkBatch(batch_id=committed, name=offset.name, committed=True),)
    lineage = Lineage(name=name, parent=None, folder=name, batches=spark)
    return History(batches.store, lineage)


def rows(view: str, source: Batches | History, asked: Predicate = EVERYTHING) -> list[dict[str, Any]]:
    """Return the rows of a view, converted by its schema."""
    found = list(VIEWS[view].rows(source if isinstance(source, History) else history(source), asked))
    return list(pa.RecordBatch.from_pylist(found, schema=VIEWS[view].schema).to_pylist())


def statuses(source: Batches | History) -> dict[str, str]:
    return {row["split_id"]: row["status"] for row in rows("splits", source)}


def shelf(*batches: str, reader: Any = EchoReader, kind: Any = Shelf, **options: str) -> Batches:
    """Return a source that has read these batches, each given as the names of its splits."""
    made = Batches(kind, reader, options, store=ReadingStore())
    for number, names in enumerate(batches, 1):
        made.now_ms = number * 1000
        made.shelve(*names.split())
        made.batch()
    return made


def test_a_checkpoint_is_complete_if_another_follows_and_pending_otherwise() -> None:
    made = shelf("a b", "c", "d")
    assert [(row["checkpoint_id"], row["status"], row["splits"]) for row in rows("checkpoints", made)] == [
        (1, "complete", 2),
        (2, "complete", 1),
        (3, "pending", 1),
    ]


def test_the_newest_checkpoint_is_complete_when_sparks_commit_log_holds_its_batch() -> None:
    made = shelf("a", "b")
    (first, last) = rows("checkpoints", history(made, committed=7))
    assert (first["status"], first["batch_id"]) == ("complete", None)
    assert (last["status"], last["batch_id"]) == ("complete", 7)
    assert statuses(made) == {"a": "finished", "b": "planned"}
    assert statuses(history(made, committed=7)) == {"a": "finished", "b": "finished"}


def test_the_checkpoints_view_shows_the_contents_of_a_checkpoint() -> None:
    made = shelf("a b", "c")
    made.enumerator().shelf.append(Item(split_id="left"))
    row = rows("checkpoints", made)[1]
    assert row["created_at"] == dt.datetime(1970, 1, 1, 0, 0, 2, tzinfo=dt.UTC)
    assert (row["kind"], row["report_demand"], row["state"]) == ("checkpoint", "none", "[]")
    assert (row["finished"], row["live"], row["waiting"], row["quarantined"]) == (3, 0, 0, 0)
    assert (row["files"], row["actions"], row["subtasks"]) == (0, 0, 1)
    assert row["parent"].startswith("1-")
    assert row["document_bytes"] == len(made.files()[f"{row['lineage']}/checkpoints/2-{row['digest']}.json"])


def test_an_abandoned_checkpoint_is_an_orphan_and_its_batch_does_not_count() -> None:
    made = shelf("a")
    made.now_ms = 2000
    made.shelve("lost")
    made.trigger()
    made.logged = made.committed
    made.restart()
    made.now_ms = 3000
    made.shelve("b")
    made.batch()
    found = rows("checkpoints", made)
    assert sorted((row["checkpoint_id"], row["status"]) for row in found) == [
        (1, "complete"),
        (2, "orphan"),
        (2, "pending"),
    ]
    assert statuses(made) == {"a": "finished", "b": "planned"}
    made.shelve("c")
    made.batch()
    assert statuses(made) == {"a": "finished", "b": "finished", "c": "planned"}


def test_the_splits_view_shows_the_checkpoints_of_a_split() -> None:
    (a, b) = rows("splits", shelf("a", "b"))
    assert (a["first_checkpoint"], a["last_checkpoint"], a["subtask"]) == (1, 1, 0)
    assert json.loads(b["split"]) == {"split_id": "b", "files": 1, "rows": None, "bytes": None}
    assert (a["attempts"], a["error"], a["rows"], a["bytes"], a["position"]) == (0, None, None, None, None)


def test_a_split_held_back_by_a_limit_is_waiting() -> None:
    made = shelf(kind=AllAtOnce)
    made.shelve("a", "b")
    made.batch(Limits(files=1))
    assert statuses(made) == {"a": "planned", "b": "waiting"}
    (waiting,) = [row for row in rows("splits", made) if row["status"] == "waiting"]
    assert (waiting["first_checkpoint"], waiting["last_checkpoint"], waiting["rows"]) == (None, None, None)
    made.batch(Limits(files=1))
    assert statuses(made) == {"a": "finished", "b": "planned"}


def test_a_split_that_is_read_in_parts_keeps_its_position_until_its_task_has_reported() -> None:
    SERVER["orders"] = list("abcdefg")
    made = Batches(Endpoints, Pages, {"pollInterval": "0s", "maxRowsPerSplit": "3"})
    made.batch()
    (row,) = rows("splits", made)
    assert (row["status"], json.loads(row["position"])["next"], row["rows"]) == ("live", 4, 4)
    task = made.next_task()
    (row,) = rows("splits", made)
    assert (row["status"], json.loads(row["position"])["next"], row["rows"]) == ("live", 4, None)
    made.attempt(task)
    made.commit()
    (row,) = rows("splits", made)
    assert (row["status"], json.loads(row["position"])["next"], row["rows"]) == ("live", 7, 7)
    assert (row["first_checkpoint"], row["last_checkpoint"]) == (1, 2)


def test_a_split_in_parts_is_finished_once_its_last_batch_is_complete() -> None:
    SERVER["orders"] = ["a", "END"]
    made = Batches(Endpoints, Pages, {"pollInterval": "0s"})
    made.batch()
    assert statuses(made) == {"orders": "live"}
    (row,) = rows("splits", history(made, committed=0))
    assert (row["status"], row["position"], row["rows"]) == ("finished", None, 1)


def test_a_returned_split_is_shown_as_returned_until_it_is_assigned_again() -> None:
    Fragile.busy.add("b")
    options = {"onSplitError": "quarantine"}
    made = shelf("a b", reader=Fragile, **options)
    assert statuses(made) == {"a": "planned", "b": "returned"}
    Fragile.mend()
    made.batch()
    assert statuses(made) == {"a": "finished", "b": "planned"}
    Fragile.busy.add("c")
    kept = shelf("c", "d", reader=Fragile, kind=KeepsReturned, **options)
    assert statuses(kept) == {"c": "returned", "d": "planned"}


def test_a_split_that_cannot_be_read_is_quarantined_before_and_after_the_next_checkpoint() -> None:
    Fragile.broken.add("b")
    made = shelf("a b", reader=Fragile, onSplitError="quarantine")
    for _ in range(2):
        (row,) = rows("quarantine", made)
        assert (row["split_id"], row["checkpoint_id"], row["attempts"]) == ("b", 1, 3)
        assert "OSError: disk on fire" in row["error"]
        (split,) = [row for row in rows("splits", made) if row["split_id"] == "b"]
        assert (split["status"], split["attempts"], split["error"]) == ("quarantined", 3, row["error"])
        made.shelve("c")
        made.batch()


def test_a_quarantined_range_of_a_split_that_is_read_on_has_its_own_row() -> None:
    options = {"end": "10", "numSplits": "1", "rowsPerSplit": "2", "onSplitError": "quarantine"}
    Numbers.broken.update(range(2, 6))
    made = Batches(SequenceEnumerator, Numbers, options)
    for batch in range(1, 6):
        made.batch()
        one, *others = rows("splits", made)
        assert (one["status"], one["last_checkpoint"]) == ("live" if batch < 5 else "planned", batch)
        assert {row["status"] for row in others} <= {"quarantined"}
        listed = [(row["split"], row["last_checkpoint"], row["error"]) for row in others]
        assert len(listed) == min(batch - 1, 2)
        assert listed == [(r["split"], r["checkpoint_id"], r["error"]) for r in rows("quarantine", made)]


def test_a_failure_fixed_by_a_retry_is_shown_with_the_split() -> None:
    Fragile.broken.add("a")
    made = shelf(reader=Fragile, onSplitError="quarantine", maxSplitAttempts="2")
    made.shelve("a")
    made.trigger()
    name = Offset.from_json(made.logged).name
    assert name is not None
    record = FailureRecord(split="a", error="OSError: once", subtask=0, attempt=0, host="h")
    FailureLog(made.store, lineage_of(made), name).add(record)
    Fragile.mend()
    made.attempt(made.tasks()[0])
    made.commit()
    (row,) = rows("splits", made)
    assert (row["status"], row["attempts"], row["error"]) == ("planned", 1, "OSError: once")


def test_a_split_whose_report_is_missing_is_not_shown_as_finished() -> None:
    made = shelf("a", kind=Listens, onMissingReport="repeat")
    made.shelve("b")
    made.trigger()
    made.commit()
    assert statuses(history(made, committed=1)) == {"a": "finished", "b": "planned"}
    made.batch()
    assert statuses(history(made, committed=2)) == {"a": "finished", "b": "finished"}


def test_the_rows_of_a_split_are_known_only_if_its_task_read_nothing_else() -> None:
    made = shelf("a", "b c", taskReports="always", parallelism="1")
    assert {row["split_id"]: row["rows"] for row in rows("splits", made)} == {"a": 1, "b": None, "c": None}


def test_the_reports_view_shows_what_a_task_did() -> None:
    made = shelf("a b", "c", kind=Listens, parallelism="1")
    (first, second) = rows("reports", made)
    assert (first["checkpoint_id"], first["subtask"], first["rows"], first["splits"]) == (1, 0, 2, 2)
    assert (second["checkpoint_id"], second["attempt"], second["events"]) == (2, 0, 0)
    assert (second["results"], second["max_event_time"]) == ("[]", None)


def test_results_of_a_report_are_json() -> None:
    SERVER["orders"] = list("abc")
    made = Batches(Endpoints, Pages, {"pollInterval": "0s"})
    made.batch()
    (row,) = rows("reports", made)
    position = {"next": 3, "split_id": "orders"}
    assert json.loads(row["results"]) == [
        {"split": "orders", "status": "live", "position": position, "caught_up": True}
    ]


def test_pending_actions_are_those_of_the_newest_checkpoint() -> None:
    made = shelf("a", "b", kind=Archives)
    (row,) = rows("actions", made)
    assert (row["checkpoint_id"], row["due_checkpoint"]) == (2, 1)
    assert json.loads(row["action"]) == "archive a"
    assert (row["attempts"], row["error"]) == (0, None)


def test_waiting_actions_are_listed_with_the_time_at_which_they_are_due() -> None:
    made = shelf("a b", "c", "d", kind=Removes, stay="1h")
    first, second, third = rows("actions", made)
    assert [json.loads(row["action"]) for row in (first, second, third)] == ["a", "b", "c"]
    assert (first["checkpoint_id"], first["due_checkpoint"], third["due_checkpoint"]) == (3, 1, 2)
    assert first["waits_since"] == dt.datetime(1970, 1, 1, 0, 0, 2, tzinfo=dt.UTC)
    assert third["due_at"] == dt.datetime(1970, 1, 1, 1, 0, 3, tzinfo=dt.UTC)
    newest = rows("checkpoints", made)[-1]
    assert (newest["actions"], newest["delayed_actions"]) == (0, 3)


def test_the_source_view_shows_the_source_and_its_driver() -> None:
    made = shelf("a", "b", uid="orders")
    made.restart()
    made.batch()
    (row,) = rows("source", made)
    assert (row["uid"], row["checkpoints"], row["newest_checkpoint"], row["epoch"]) == ("orders", 2, 2, 2)
    assert row["lineage"].startswith("orders-")
    assert row["driver_process"] > 0


def store_of(made: Batches) -> ReadingStore:
    assert isinstance(made.store, ReadingStore)
    return made.store


def test_checkpoints_outside_of_the_range_are_not_opened() -> None:
    made = shelf(*"abcdefghij", taskReports="always")
    store = store_of(made)
    for asked, expected in (
        (EVERYTHING.narrowed("checkpoint_id", "=", [3]), [3]),
        (EVERYTHING.narrowed("checkpoint_id", "=", [3, 5]), [3, 5]),
        (EVERYTHING.narrowed("checkpoint_id", ">=", [9]), [9, 10]),
        (EVERYTHING.narrowed("checkpoint_id", "<", [3]), [1, 2]),
        (EVERYTHING.narrowed("checkpoint_id", ">", [4]).narrowed("checkpoint_id", "<=", [5]), [5]),
    ):
        for view in ("checkpoints", "reports"):
            store.opened.clear()
            found = rows(view, made, asked)
            newest = 10
            assert set(store.opened_documents()) <= {*expected, newest}
            assert [row["checkpoint_id"] for row in found] == expected
            reports = [name for name in store.opened if "/reports/" in name]
            assert len(reports) == (len(expected) if view == "reports" else 0)


def test_reports_of_tasks_that_did_not_have_the_split_are_not_opened() -> None:
    made = shelf("a", taskReports="always", parallelism="2")
    made.enumerator().shelf.extend(Item(split_id=name, bytes=64 * MIB) for name in "cd")
    made.batch()
    assert [row["splits"] for row in rows("reports", made)] == [1, 1, 1]
    store = store_of(made)
    store.opened.clear()
    (row,) = rows("splits", made, EVERYTHING.narrowed("split_id", "=", ["c"]))
    assert (row["split_id"], row["rows"]) == ("c", 1)
    assert len([name for name in store.opened if "/reports/" in name]) == 1


def test_a_document_that_clean_up_removes_while_it_is_read_is_ignored() -> None:
    made = shelf("a", "b", "c")
    store = store_of(made)
    for left, view in ((2, "checkpoints"), (1, "splits")):
        oldest = store.documents()[0]
        store.vanishing[oldest] = {oldest}
        assert len(rows(view, made)) == left


def test_a_segment_that_clean_up_removes_with_its_document_is_ignored_and_any_other_is_an_error() -> None:
    many = " ".join(f"{number:0100d}" for number in range(40))
    made = shelf(many, "b", parallelism="1")
    store = store_of(made)
    (segment,) = [name for name in store.files if "/segments/" in name]
    data = store.files.pop(segment)
    with pytest.raises(Exception, match=r"segments/[0-9a-f]+\.plan\.json is missing"):
        rows("splits", made)
    store.files[segment] = data
    assert len(rows("splits", made)) == 41
    store.vanishing[segment] = {segment, store.documents()[0]}
    assert [row["split_id"] for row in rows("splits", made)] == ["b"]


@pytest.mark.parametrize("how", ["cut off", "altered"])
def test_a_damaged_document_is_an_error_that_names_it(how: str) -> None:
    made = shelf("a", "b")
    store = store_of(made)
    file = store.documents()[0]
    data = store.files[file]
    store.files[file] = data[:-9] if how == "cut off" else data.replace(b'"a"', b'"x"')
    with pytest.raises(CorruptStateError, match=file.rpartition("/")[2]):
        rows("splits", made)


def test_a_damaged_report_is_an_error_that_names_it() -> None:
    made = shelf("a", taskReports="always")
    (file,) = [name for name in made.files() if "/reports/" in name]
    made.store.replace(file, made.files()[file].replace(b'"rows":1', b'"rows":2'))
    with pytest.raises(CorruptStateError, match=file):
        rows("reports", made)


def test_the_newest_document_is_an_error_if_it_is_listed_but_missing() -> None:
    made = shelf("a", "b")
    store = store_of(made)
    store.unreadable.add(store.documents()[-1])
    with pytest.raises(Exception, match="is missing from the state location"):
        rows("splits", made)


def test_a_lineage_without_a_checkpoint_has_a_row_in_the_source_view_only() -> None:
    made = shelf("a")
    name = lineage_of(made)
    only_source = MemoryStore()
    only_source.files[f"{name}/source.json"] = made.files()[f"{name}/source.json"]
    empty = History(only_source, Lineage(name=name, parent=None, folder=name))
    assert {view: len(rows(view, empty)) for view in VIEWS} == dict.fromkeys(VIEWS, 0) | {"source": 1}


def test_a_bounded_source_ends_with_every_split_planned() -> None:
    SERVER["orders"] = list("abc")
    made = Batches(Endpoints, Pages, {"pollInterval": "0s"}, boundedness=Boundedness.BOUNDED)
    while made.batch() is not None:
        pass
    assert rows("splits", made)[0]["rows"] == 3
