"""Clean-up: whatever it deletes and wherever it stops, retained checkpoints stay complete (R10)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flip27_source.errors import CorruptStateError, Flip27Error, StateLocationError
from flip27_source.segment import content_digest
from flip27_source.snapshots.checkpoint_files import CheckpointStorage
from flip27_source.snapshots.clean_up import Cleaner, CleanupPlan, KnownDocument, plan_cleanup
from flip27_source.snapshots.codec import SnapshotCodec
from flip27_source.snapshots.documents import SourceIdentity
from flip27_source.snapshots.file_names import FAILURES, FOLDERS, CheckpointName
from flip27_source.snapshots.offsets import INITIAL_OFFSET, Offset
from flip27_source.snapshots.store import MemoryStore, Store
from flip27_source.snapshots.task_failures import TaskFailure, keep_failure
from tests.toy_sources import FEEDS, KIB, BulkFeed, coordinator_of, frozen, items, source_of


def name(number: int, variant: str = "a") -> CheckpointName:
    return CheckpointName(number, variant * 32)


def line(count: int) -> dict[CheckpointName, KnownDocument]:
    """Documents 1 to ``count``; document n names the segments n and n+1, so neighbours share a segment."""
    return {
        name(n): KnownDocument(
            parent=name(n - 1) if n > 1 else None, segments=frozenset({f"s{n:02}", f"s{n + 1:02}"})
        )
        for n in range(1, count + 1)
    }


def segments_of(documents: dict[CheckpointName, KnownDocument]) -> set[str]:
    return set().union(*(known.segments for known in documents.values()))


def test_an_orphan_is_deleted_when_it_is_older_than_all_retained_documents() -> None:
    documents = line(6) | {name(3, "b"): KnownDocument(parent=name(2), segments=frozenset({"orphan"}))}
    there = segments_of(documents)
    keeps = plan_cleanup(committed=name(6), documents=documents, segments=there, retained=4)
    assert name(3, "b") not in keeps.documents
    goes = plan_cleanup(committed=name(6), documents=documents, segments=there, retained=3)
    assert goes.documents == (name(3, "b"), name(3), name(2), name(1)), "what is left is the line"
    assert "orphan" in goes.segments


def test_nothing_is_deleted_if_the_committed_document_is_missing() -> None:
    documents = line(5)
    plan = plan_cleanup(committed=name(9), documents=documents, segments=segments_of(documents), retained=1)
    assert (plan.documents, plan.segments) == ((), ())


CASES = st.fixed_dictionaries(
    {
        "parents": st.lists(st.integers(0, 6), min_size=1, max_size=14),
        "segments": st.lists(st.frozensets(st.integers(0, 9), max_size=4), min_size=14, max_size=14),
        "committed": st.integers(0, 13),
        "retained": st.integers(1, 5),
        "unnamed": st.frozensets(st.integers(8, 12)),
        "suspects": st.frozensets(st.integers(0, 12)),
        "stop_after": st.integers(0, 30),
    }
)


@settings(max_examples=400, derandomize=True)
@given(CASES)
def test_nothing_that_a_retained_document_reaches_is_ever_deleted_R10(case: dict[str, Any]) -> None:
    """This holds for any tree of documents, any sharing of segments, and any number of completed deletes."""
    names: list[CheckpointName] = []
    documents: dict[CheckpointName, KnownDocument] = {}
    for index, back in enumerate(case["parents"]):
        parent = names[-1 - back % len(names)] if names and back else (names[-1] if names else None)
        made = CheckpointName((parent.checkpoint_id if parent else 0) + 1, f"{index:032x}")
        names.append(made)
        documents[made] = KnownDocument(
            parent=parent, segments=frozenset(f"s{number}" for number in case["segments"][index])
        )
    committed = names[case["committed"] % len(names)]
    there = segments_of(documents) | {f"s{number}" for number in case["unnamed"]}
    suspects = frozenset(f"s{number}" for number in case["suspects"])
    plan = plan_cleanup(
        committed=committed, documents=documents, segments=there, retained=case["retained"], suspects=suspects
    )
    deleted = [*plan.documents, *plan.segments][: case["stop_after"]]

    retained: list[CheckpointName] = []
    at: CheckpointName | None = committed
    while at is not None and len(retained) < case["retained"]:
        retained.append(at)
        at = documents[at].parent
    younger = [n for n in names if n.checkpoint_id >= committed.checkpoint_id]
    for kept in [*retained, *younger]:
        assert kept not in deleted
        assert not documents[kept].segments & set(deleted)
    named = segments_of(documents)
    assert not (set(plan.segments) - named) - suspects, "the first clean-up deleted an unnamed segment"
    while at is not None:
        retained.append(at)
        at = documents[at].parent
    beside = set(plan.documents).difference(retained)
    on_the_line = set(plan.documents) - beside
    assert [*plan.documents] == [*sorted(beside, reverse=True), *sorted(on_the_line, reverse=True)]


@settings(max_examples=150, derandomize=True)
@given(CASES)
def test_leftovers_of_a_crash_are_deleted_after_two_more_clean_ups(case: dict[str, Any]) -> None:
    documents = line(14)
    there = segments_of(documents) | {f"u{number}" for number in case["unnamed"]}
    first = plan_cleanup(committed=name(14), documents=documents, segments=there, retained=case["retained"])
    for gone in [*first.documents, *first.segments][: case["stop_after"]]:
        if isinstance(gone, CheckpointName):
            del documents[gone]
        else:
            there.discard(gone)
    suspects = frozenset[str]()
    for _ in range(2):
        plan = plan_cleanup(
            committed=name(14),
            documents=documents,
            segments=there,
            retained=case["retained"],
            suspects=suspects,
        )
        for document in plan.documents:
            del documents[document]
        there -= set(plan.segments)
        suspects = plan.suspects
    assert set(documents) == {name(n) for n in range(15 - case["retained"], 15)}
    assert there == segments_of(documents)


IDENTITY = SourceIdentity(
    uid="u", enumerator="BulkFeed", reader="r", state_version=1, split_version=1, library="0.1.0"
)


class Run:
    """One run of a source with bulk state that writes a checkpoint for each of ``count`` items of a feed."""

    def __init__(self, store: Store, feed: str, count: int = 0) -> None:
        FEEDS[feed] = []
        self.store = store
        self.feed = feed
        self.options = source_of(BulkFeed, {"feed": feed}).options
        self.offsets: list[Offset] = [INITIAL_OFFSET]
        self.storage = self.new_storage()
        self.coordinator = coordinator_of(BulkFeed, options=self.options)
        self.checkpoints(count)

    def new_storage(self) -> CheckpointStorage:
        return CheckpointStorage(
            SnapshotCodec(BulkFeed),
            IDENTITY,
            store=self.store,
            inline_limit_bytes=KIB,
            new_random=lambda: "0" * 16,
        )

    def restart(self) -> None:
        self.storage = self.new_storage()
        self.coordinator = coordinator_of(
            BulkFeed, options=self.options, restored=self.storage.restore(self.offsets[-1])
        )

    def checkpoints(self, count: int) -> None:
        for _ in range(count):
            FEEDS[self.feed].extend(items(str(len(FEEDS[self.feed]))))
            if self.coordinator.pending is not None:
                self.coordinator.complete(self.coordinator.pending.checkpoint_id)
            pending = frozen(self.coordinator)
            self.offsets.append(self.storage.write(pending, parent=self.offsets[-1]))

    def check(self) -> None:
        """Nobody has taken over."""

    def clean(self, retained: int, cleaner: Cleaner | None = None) -> CleanupPlan:
        newest = self.offsets[-1]
        assert newest.name is not None
        cleaner = cleaner or self.cleaner(retained)
        return cleaner.clean(newest.name)

    def cleaner(self, retained: int) -> Cleaner:
        lineage = self.offsets[-1].lineage
        assert lineage is not None
        return Cleaner(self.store, lineage, retained, self.storage.in_use, self.check)

    def restorable(self) -> list[int]:
        """The ids of the checkpoints that can be restored completely."""
        found = []
        for offset in self.offsets[1:]:
            try:
                snapshot = self.new_storage().restore(offset)
                assert snapshot is not None
                assert all(mark.data for mark in snapshot.enumerator_state.marks)
                found.append(offset.checkpoint_id)
            except Flip27Error:
                continue
        return found


def test_after_a_restart_leftovers_are_deleted_and_retained_checkpoints_can_be_restored() -> None:
    store = MemoryStore()
    run = Run(store, "cleaned", 30)
    run.restart()
    assert [item.checkpoint_id for item in run.clean(5).documents] == list(range(25, 0, -1))
    assert run.restorable() == [26, 27, 28, 29, 30]
    # Ten marks in each state; the five newest states name marks 16 to 29 together.
    assert len(store.list(f"{run.offsets[-1].lineage}/segments")) == 14
    run.checkpoints(1)
    assert run.restorable() == [26, 27, 28, 29, 30, 31]


def test_why_tasks_have_failed_is_deleted_with_their_checkpoint() -> None:
    store = MemoryStore()
    run = Run(store, "failed", 6)
    for offset in run.offsets[1:]:
        assert offset.document is not None
        keep_failure(store, *offset.document, TaskFailure(at_ms=1, subtask=0, attempt=0, host="h", error="e"))
    run.clean(2)
    (lineage,) = {offset.lineage for offset in run.offsets[1:]}
    assert store.list(f"{lineage}/failures") == [f"{run.offsets[n].name}.task-0-1.json" for n in (5, 6)]


class HasAClosedFolder(MemoryStore):
    """A store in which an executor of another user has made a folder."""

    def __init__(self) -> None:
        super().__init__()
        self.cleaned: list[str] = []

    def list(self, folder: str) -> list[str]:
        if folder.endswith(FAILURES):
            raise StateLocationError(f"cannot list {folder}: permission denied", remedy="let the driver")
        return super().list(folder)

    def remove_abandoned(self, folder: str, *, older_than_s: float = 0) -> int:
        self.cleaned.append(folder.rpartition("/")[2])
        return 0


def test_a_folder_that_cannot_be_cleaned_is_named_and_the_others_are_cleaned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = HasAClosedFolder()
    run = Run(store, "closed", 6)
    assert len(run.clean(2).documents) == 4
    assert set(store.cleaned) == {*FOLDERS} - {FAILURES}
    assert f"/{FAILURES}: permission denied" in caplog.text


def test_a_long_run_also_cleans_up_its_own_files() -> None:
    """Only segments that the current coordinator can still refer to are in use, not all it ever wrote."""
    store = MemoryStore()
    run = Run(store, "long")
    for _ in range(6):
        run.checkpoints(10)
        cleaner = run.cleaner(5)
        run.clean(5, cleaner)
        run.clean(5, cleaner)
    assert run.restorable() == [56, 57, 58, 59, 60]
    assert len(store.list(f"{run.offsets[-1].lineage}/segments")) <= 30


def test_segments_written_for_a_document_that_is_still_to_come_are_not_cleaned() -> None:
    """Two clean-ups run after the segments of a checkpoint are written and before its document is."""

    class CleansBeforeTheDocument(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.clean: Callable[[], object] | None = None

        def create(self, name: str, data: bytes) -> bool:
            if "/checkpoints/" in name and self.clean is not None:
                self.clean()
                self.clean()
            return super().create(name, data)

    store = CleansBeforeTheDocument()
    run = Run(store, "between", 12)
    cleaner = run.cleaner(3)
    store.clean = lambda: run.clean(3, cleaner)
    run.checkpoints(5)
    assert run.restorable()[-1] == 17
    assert set(run.restorable()) >= {15, 16, 17}


class StopsDeleting(MemoryStore):
    """A store whose driver is killed instead of making one of its deletes."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None

    def delete(self, name: str) -> None:
        if self.left is not None:
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
        super().delete(name)


def test_a_crash_at_any_delete_keeps_retained_checkpoints_and_leaves_the_rest_to_the_next_clean_up() -> None:
    for crash_at in range(0, 24, 2):
        store = StopsDeleting()
        run = Run(store, "stops", 14)
        run.restart()
        store.left = crash_at
        with contextlib.suppress(KeyboardInterrupt):
            run.clean(3)
        assert run.restorable()[-3:] == [12, 13, 14]
        store.left = None
        run.restart()
        cleaner = run.cleaner(3)
        run.clean(3, cleaner)
        run.clean(3, cleaner)
        lineage = run.offsets[-1].lineage
        assert len(store.list(f"{lineage}/checkpoints")) == 3
        assert len(store.list(f"{lineage}/segments")) == 12
        assert run.restorable() == [12, 13, 14]


def test_another_lineage_in_the_same_place_is_not_touched() -> None:
    store = MemoryStore()
    run = Run(store, "mine", 14)
    others = {
        f"other-{'e' * 16}/checkpoints/{name(1)}.json": b"not even a document",
        f"other-{'e' * 16}/segments/x": b"",
    }
    store.files.update(others)
    run.restart()
    cleaner = run.cleaner(2)
    for _ in range(3):
        run.clean(2, cleaner)
    assert {key: store.files[key] for key in others} == others


@pytest.mark.parametrize("stray", [".tmp-123", "README", "1-short.json"])
def test_files_that_are_no_documents_are_left_alone(stray: str) -> None:
    store = MemoryStore()
    run = Run(store, "stray", 4)
    path = f"{run.offsets[-1].lineage}/checkpoints/{stray}"
    store.files[path] = b"?"
    run.clean(2)
    assert store.files[path] == b"?"


def test_a_document_of_a_newer_format_stops_the_clean_up() -> None:
    """This version cannot know which segments that document names."""
    store = MemoryStore()
    run = Run(store, "newer", 4)
    data = b'{"format":6}'
    newer = CheckpointName(5, content_digest(data))
    store.files[f"{run.offsets[-1].lineage}/checkpoints/{newer.file_name}"] = data
    before = set(store.files)
    with pytest.raises(Flip27Error, match="has format 6"):
        run.clean(2)
    assert set(store.files) == before


def damage(run: Run, checkpoint_id: int) -> str:
    """Cut the document of a checkpoint short; return its path."""
    damaged = run.offsets[checkpoint_id].name
    assert damaged is not None
    path = f"{run.offsets[-1].lineage}/checkpoints/{damaged.file_name}"
    run.store.replace(path, run.store.read(path)[:100])
    return path


def test_a_damaged_document_that_is_older_than_all_kept_ones_is_cleaned_up_too() -> None:
    sound, store = MemoryStore(), MemoryStore()
    for each in (sound, store):
        run = Run(each, "damaged", 9)
        run.restart()
        if each is store:
            damage(run, 2)
        cleaner = run.cleaner(3)
        # The segments that only the damaged document names are found unnamed, and deleted by the second one.
        for _ in range(2):
            run.clean(3, cleaner)
        assert run.restorable() == [7, 8, 9]
    assert store.files == sound.files


@pytest.mark.parametrize(
    ("damaged", "committed"),
    [(7, 9), (8, 9), (9, 9), (9, 8), (1, None)],
    ids=["oldest kept", "kept", "committed", "newer than the committed one", "the committed one is missing"],
)
def test_a_damaged_document_that_may_be_needed_stops_the_clean_up(
    damaged: int, committed: int | None
) -> None:
    """A newer one may be an orphan, or belong to a batch that is running: its segments are not known."""
    store = MemoryStore()
    run = Run(store, "damaged", 9)
    damage(run, damaged)
    before = set(store.files)
    cleaner = run.cleaner(3)
    known = name(10) if committed is None else run.offsets[committed].name
    assert known is not None
    for _ in range(2):
        with pytest.raises(CorruptStateError, match="does not match its digest"):
            cleaner.clean(known)
    assert set(store.files) == before


def test_clean_up_continues_once_a_damaged_document_is_no_longer_kept() -> None:
    store = MemoryStore()
    run = Run(store, "damaged", 9)
    path = damage(run, 8)
    cleaner = run.cleaner(3)
    with pytest.raises(CorruptStateError):
        run.clean(3, cleaner)
    run.checkpoints(2)
    assert run.offsets[8].name in run.clean(3, cleaner).documents
    assert path not in store.files
    assert run.restorable() == [9, 10, 11]
