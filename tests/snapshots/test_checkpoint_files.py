"""CheckpointStorage: checkpoints are durable before they are announced, and only valid ones are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flip27_source.coordination.batch_limits import Limits
from flip27_source.coordination.checkpoints import PendingCheckpoint
from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.errors import CorruptStateError, IncompatibleStateError, StateLocationError
from flip27_source.snapshots.checkpoint_files import CheckpointStorage
from flip27_source.snapshots.codec import SnapshotCodec
from flip27_source.snapshots.documents import SourceIdentity
from flip27_source.snapshots.offsets import INITIAL_OFFSET, Offset
from flip27_source.snapshots.store import MemoryStore, Store
from tests.coordination.test_coordinator import shelf_of
from tests.toy_sources import (
    FEEDS,
    KIB,
    AllAtOnce,
    BulkFeed,
    CountingStore,
    Item,
    Shelf,
    all_ids,
    coordinator_of,
    frozen,
    items,
    source_of,
)


def identity(**changes: Any) -> SourceIdentity:
    values: dict[str, Any] = {
        "uid": "orders", "enumerator": "Shelf", "reader": "EchoReader", "state_version": 1,
        "split_version": 1, "library": "0.1.0",
    }  # fmt: skip
    return SourceIdentity(**{**values, **changes})


RANDOM = "0" * 16


def storage_of(
    store: Store | None,
    *,
    kind: type[Any] = Shelf,
    limit: int = 64 * KIB,
    random: str = RANDOM,
    **changes: Any,
) -> CheckpointStorage:
    return CheckpointStorage(
        SnapshotCodec(kind),
        identity(**changes),
        store=store,
        inline_limit_bytes=limit,
        new_random=lambda: random,
    )


def checkpoints(*names: str) -> Iterator[PendingCheckpoint[Any]]:
    """Make one checkpoint after the other, with one split each."""
    coordinator = coordinator_of()
    for number, name in enumerate(names, 1):
        shelf_of(coordinator).shelf.extend(items(name))
        yield frozen(coordinator)
        coordinator.complete(number)


def written(storage: CheckpointStorage, *names: str) -> list[Offset]:
    """Write a checkpoint for each name; return their offsets after the initial one."""
    offsets = [INITIAL_OFFSET]
    for pending in checkpoints(*names):
        offsets.append(through_spark(storage.write(pending, parent=offsets[-1])))
    return offsets


def through_spark(offset: Offset) -> Offset:
    return Offset.from_json(json.loads(json.dumps(offset.to_json())))


def plans(storage: CheckpointStorage, start: Offset, end: Offset) -> list[str]:
    codec = SnapshotCodec(Shelf)
    return [
        split.split_id
        for offset, document in storage.plans_between(start, end)
        for _, segment in document.plan_segments(storage.segment_loader(offset, document))
        for split in codec.decode_splits(1, segment)
    ]


class CrashingStore(MemoryStore):
    """A store whose driver is killed instead of making one of its writes."""

    def __init__(self, files: dict[str, bytes], *, crash_at: int) -> None:
        super().__init__()
        self.files = files
        self._left = crash_at

    def create(self, name: str, data: bytes) -> bool:
        if self._left == 0:
            raise KeyboardInterrupt
        self._left -= 1
        return super().create(name, data)


def both() -> list[Any]:
    return [pytest.param(None, id="inline"), pytest.param(MemoryStore, id="files")]


@pytest.mark.parametrize("kind", both())
def test_the_plan_of_a_batch_is_always_the_recorded_plan_R3_S95(kind: Callable[[], Store] | None) -> None:
    store = kind() if kind else None
    storage = storage_of(store)
    offsets = written(storage, "a", "b", "c")
    for _ in range(3):
        assert plans(storage, offsets[0], offsets[1]) == ["a"]
        assert plans(storage, offsets[2], offsets[3]) == ["c"]
    assert plans(storage_of(store), offsets[1], offsets[2]) == ["b"], "a new process reads the same"


def test_the_plans_of_several_checkpoints_are_found_through_their_parents() -> None:
    storage = storage_of(MemoryStore())
    offsets = written(storage, "a", "b", "c")
    assert plans(storage, offsets[1], offsets[3]) == ["b", "c"]
    assert plans(storage, offsets[0], offsets[3]) == ["a", "b", "c"]
    assert plans(storage, offsets[2], offsets[2]) == []


def test_with_inline_state_a_start_that_is_not_the_parent_is_an_error_and_never_skips_a_batch_R12() -> None:
    """Inline documents cannot be found through their parents, so the plans in between are unknown."""
    storage = storage_of(None)
    offsets = written(storage, "a", "b", "c")
    for start, end in ((1, 3), (0, 2), (0, 3)):
        with pytest.raises(CorruptStateError, match=f"checkpoint {start} is not an ancestor of {end}"):
            plans(storage, offsets[start], offsets[end])


def test_a_start_offset_of_another_lineage_is_an_error() -> None:
    store = MemoryStore()
    one, other = storage_of(store), storage_of(store, random="e" * 16)
    first, second = written(one, "a", "b", "c"), written(other, "x", "y", "z")
    with pytest.raises(CorruptStateError, match="is not an ancestor"):
        plans(one, second[1], first[2])
    with pytest.raises(CorruptStateError, match="do not belong together"):
        plans(one, second[2], first[3])


def test_a_query_that_outgrew_its_offset_log_continues_with_a_state_location() -> None:
    """The error about inlineStateLimit tells the user to do this."""
    inline = written(storage_of(None), "a")
    storage = storage_of(MemoryStore())
    snapshot = storage.restore(inline[1])
    assert snapshot is not None
    coordinator: SourceCoordinator[Item] = coordinator_of(restored=snapshot)
    shelf_of(coordinator).shelf.extend(items("b"))
    second = through_spark(storage.write(frozen(coordinator), parent=inline[1]))
    assert plans(storage, inline[1], second) == ["b"]


def test_the_error_for_state_over_the_inline_limit_names_the_state_location() -> None:
    (pending,) = checkpoints("a" * 5000)
    with pytest.raises(StateLocationError, match="without a state location at most 4096 bytes fit") as caught:
        storage_of(None, limit=4 * KIB).write(pending, parent=INITIAL_OFFSET)
    assert 'set .option("stateLocation", "<checkpointLocation>/flip27")' in str(caught.value)
    assert storage_of(None, limit=8 * KIB).write(pending, parent=INITIAL_OFFSET).checkpoint_id == 1


def test_an_offset_with_state_in_files_needs_a_state_location() -> None:
    offsets = written(storage_of(MemoryStore()), "a")
    with pytest.raises(StateLocationError, match="option stateLocation is not set"):
        storage_of(None).read(offsets[1])


def bulk_checkpoint(count: int = 3) -> PendingCheckpoint[Any]:
    """A checkpoint with ``count`` segments of 8 KiB in its state."""
    FEEDS["bulk"] = items(*(f"{i}" for i in range(count)))
    coordinator = coordinator_of(BulkFeed, options=source_of(BulkFeed, {"feed": "bulk"}).options)
    return frozen(coordinator)


def test_segments_are_durable_before_their_document_and_the_document_before_its_offset_R2() -> None:
    store = CountingStore()
    offset = storage_of(store, kind=BulkFeed).write(bulk_checkpoint(), parent=INITIAL_OFFSET)
    folders = [name.split("/")[1] for name, _ in store.created]
    assert folders == ["source.json", "segments", "segments", "segments", "checkpoints"]
    assert store.created[-1][0] == offset.to_json()["state"]["file"]


def test_a_crash_at_any_write_leaves_a_location_that_the_next_run_can_use() -> None:
    """Whichever write the driver is killed at, the next run writes the same checkpoint."""
    for crash_at in range(5):
        files: dict[str, bytes] = {}
        with pytest.raises(KeyboardInterrupt):
            storage_of(CrashingStore(files, crash_at=crash_at), kind=BulkFeed).write(
                bulk_checkpoint(), parent=INITIAL_OFFSET
            )
        assert not any("/checkpoints/" in name for name in files), "an incomplete checkpoint is announced"
        storage = storage_of(CrashingStore(files, crash_at=99), kind=BulkFeed, random="f" * 16)
        offset = storage.write(bulk_checkpoint(), parent=INITIAL_OFFSET)
        snapshot = storage_of(CrashingStore(files, crash_at=0), kind=BulkFeed).restore(offset)
        assert snapshot is not None
        assert [len(mark.data) for mark in snapshot.enumerator_state.marks] == [8 * KIB] * 3


def test_a_checkpoint_written_twice_is_one_checkpoint_R9() -> None:
    """The same state frozen again after a crash has the same name and bytes, and overwrites nothing."""
    store = MemoryStore()
    (first,) = checkpoints("a")
    storage = storage_of(store)
    offset = storage.write(first, parent=INITIAL_OFFSET)
    (second,) = checkpoints("b")
    two = storage.write(second, parent=offset)
    before = dict(store.files)
    assert storage.write(second, parent=offset) == two
    assert store.files == before


def test_the_bytes_of_a_checkpoint_are_proportional_to_the_new_state_S99() -> None:
    """If ten segments of 8 KiB are known and one is new, only that one is written."""
    FEEDS["grow"] = items(*(f"{i}" for i in range(10)))
    store = CountingStore()
    storage = storage_of(store, kind=BulkFeed)
    coordinator = coordinator_of(BulkFeed, options=source_of(BulkFeed, {"feed": "grow"}).options)
    offset = storage.write(frozen(coordinator), parent=INITIAL_OFFSET)
    store.created.clear()
    coordinator.complete(1)
    FEEDS["grow"].extend(items("10"))
    storage.write(frozen(coordinator), parent=offset)
    assert [name.split("/")[1] for name, _ in store.created] == ["segments", "checkpoints"]
    assert sum(size for _, size in store.created) < 3 * KIB


def test_the_first_checkpoint_after_a_restart_does_not_write_the_entire_state_again_S99() -> None:
    """Restored segments are durable already; to read, pack and write them again would cost O(all state)."""
    FEEDS["again"] = items(*(f"{i}" for i in range(10)))
    options = source_of(BulkFeed, {"feed": "again"}).options
    store = CountingStore()
    first = storage_of(store, kind=BulkFeed)
    offset = first.write(frozen(coordinator_of(BulkFeed, options=options)), parent=INITIAL_OFFSET)
    store.created.clear()
    FEEDS["again"].extend(items("10"))
    restarted = storage_of(store, kind=BulkFeed)
    coordinator = coordinator_of(BulkFeed, options=options, restored=restarted.restore(offset))
    restarted.write(frozen(coordinator), parent=offset)
    assert [name.split("/")[1] for name, _ in store.created] == ["segments", "checkpoints"]


def test_splits_that_wait_in_the_gateways_are_not_written_again_with_every_batch_S99() -> None:
    """FLIP-27 lets an enumerator assign all splits at once; the ledger then contains the unread ones."""
    store = CountingStore()
    storage = storage_of(store)
    coordinator = coordinator_of(AllAtOnce)
    shelf_of(coordinator).shelf.extend(items(*map(str, range(20_000))))
    offset = storage.write(frozen(coordinator, Limits(files=10)), parent=INITIAL_OFFSET)
    coordinator.complete(1)
    store.created.clear()
    storage.write(frozen(coordinator, Limits(files=10)), parent=offset)
    assert sum(size for _, size in store.created) < 64 * KIB


def test_an_offset_whose_document_belongs_to_another_checkpoint_is_refused() -> None:
    offsets = written(storage_of(None), "a", "b")
    mixed = Offset(checkpoint_id=1, inline=offsets[2].inline)
    with pytest.raises(
        CorruptStateError, match="belongs to checkpoint 1, but its document belongs to checkpoint 2"
    ):
        storage_of(None).read(mixed)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"uid": "customers"}, "uid: was 'orders', is 'customers'"),
        ({"enumerator": "files"}, "enumerator: was 'Shelf', is 'files'"),
        ({"start_options": {"start": "5"}}, "option start: was None, is '5'"),
    ],
)
def test_the_state_of_another_source_is_refused_with_the_differences(
    changes: dict[str, Any], told: str
) -> None:
    store = MemoryStore()
    offsets = written(storage_of(store), "a")
    for call in (storage_of(store, **changes).restore, storage_of(store, **changes).read):
        with pytest.raises(IncompatibleStateError) as caught:
            call(offsets[1])
        assert told in str(caught.value)
        assert "restore the old settings, or start again" in str(caught.value)


def test_the_state_can_be_used_by_another_reader_or_library_version() -> None:
    store = MemoryStore()
    offsets = written(storage_of(store), "a")
    assert storage_of(store, reader="csv", library="9.9").restore(offsets[1]) is not None


def test_a_lineage_is_never_shared_by_accident() -> None:
    store = MemoryStore()
    written(storage_of(store), "a")
    with pytest.raises(StateLocationError, match="already exists"):
        written(storage_of(store), "b")


@pytest.mark.parametrize("fails_at", ["segments", "checkpoints"])
def test_a_first_checkpoint_that_cannot_be_written_leaves_no_lineage(fails_at: str) -> None:
    class IsFull(MemoryStore):
        def create(self, name: str, data: bytes) -> bool:
            created = super().create(name, data)
            if f"/{fails_at}/" in name:
                raise StateLocationError("the disk is full", remedy="make room")
            return created

    storage = storage_of(store := IsFull(), kind=BulkFeed)
    with pytest.raises(StateLocationError, match="the disk is full"):
        storage.write(bulk_checkpoint(), parent=INITIAL_OFFSET)
    assert store.files == {}


def test_a_lineage_records_its_source() -> None:
    store = MemoryStore()
    offsets = written(storage_of(store), "a")
    source = json.loads(store.read(f"{offsets[1].lineage}/source.json"))
    assert source["format"] == 1
    assert (source["source"]["uid"], source["source"]["enumerator"]) == ("orders", "Shelf")


@pytest.mark.parametrize("uid", ["orders..v2", "a/../../b", "my source", "päckchen"])
def test_a_source_with_any_uid_can_be_restarted(uid: str) -> None:
    store = MemoryStore()
    offsets = written(storage_of(store, uid=uid), "a")
    assert plans(storage_of(store, uid=uid), INITIAL_OFFSET, offsets[1]) == ["a"]


def test_an_offset_stays_under_4_kib_whatever_the_state_and_the_gauges() -> None:
    class Talks(Shelf):
        def snapshot_state(self, checkpoint_id: int) -> list[Item]:
            for number in range(500):
                self.context.metrics.gauge(f"{number:04}{'ä' * 100}", number)
            return super().snapshot_state(checkpoint_id)

    coordinator = coordinator_of(Talks)
    shelf_of(coordinator).shelf.extend(items(*map(str, range(20_000))))
    pending = frozen(coordinator, Limits(files=10_000))
    offset = storage_of(MemoryStore()).write(pending, parent=INITIAL_OFFSET)
    assert len(json.dumps(offset.to_json())) < 4 * KIB
    assert offset.summary["splits"] == 10_000
    assert len(all_ids(pending.snapshot.plan)) == 10_000
