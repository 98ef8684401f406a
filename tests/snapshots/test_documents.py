"""Checkpoint documents: what was written is read back unchanged, and everything else is refused."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import pytest

from flip27_source.coordination.checkpoints import CheckpointMetadata, LedgerState, Snapshot, WaitingSplit
from flip27_source.coordination.packing import Assignment, Plan
from flip27_source.enumerator import SplitEnumerator
from flip27_source.errors import ContractError, CorruptStateError, IncompatibleStateError
from flip27_source.segment import Segment
from flip27_source.snapshots.codec import INLINE_SEGMENT_BYTES, EncodedDocument, SnapshotCodec
from flip27_source.snapshots.documents import CheckpointDocument, SourceIdentity, decode_document
from flip27_source.snapshots.file_names import CheckpointName
from tests.coordination.test_coordinator import shelf_of
from tests.toy_sources import Item, Shelf, coordinator_of, freeze, frozen, items

IDENTITY = SourceIdentity(
    uid="orders", enumerator="Shelf", reader="EchoReader", state_version=1, split_version=1, library="0.1.0"
)
PARENT = CheckpointName(6, "0123456789abcdef0123456789abcdef")


def snapshot_of(state: Any, **ledger: Any) -> Snapshot[Any]:
    return Snapshot(
        metadata=CheckpointMetadata(checkpoint_id=7, timestamp_ms=1234),
        enumerator_state=state,
        ledger=LedgerState(**ledger),
        plan=Plan(assignments=(Assignment(subtask_id=1, splits=tuple(items("p", "q"))),)),
    )


def encoded(
    snapshot: Snapshot[Any], kind: type[SplitEnumerator[Any]] = Shelf, *, inline_all: bool = False
) -> EncodedDocument:
    return SnapshotCodec(kind).encode(snapshot, source=IDENTITY, parent=PARENT, inline_all=inline_all)


def loader(document: EncodedDocument) -> Callable[[str], bytes]:
    return lambda name: document.segments[name].data


def decoded(
    document: EncodedDocument, kind: type[SplitEnumerator[Any]] = Shelf, *, with_plan: bool = False
) -> Snapshot[Any]:
    found = decode_document(document.data, document.name)
    return SnapshotCodec(kind).decode(found, loader(document), with_plan=with_plan)


FULL = snapshot_of(
    items("left", "over"),
    live=(Item(split_id="live", rows=7),),
    waiting=(
        WaitingSplit(split=Item(split_id="free"), subtask_id=None),
        WaitingSplit(split=Item(split_id="pinned"), subtask_id=3),
    ),
    finished=42,
)


def test_a_snapshot_is_restored_unchanged_except_for_its_plan_S57() -> None:
    again = decoded(encoded(FULL))
    assert again.metadata == FULL.metadata
    assert again.enumerator_state == FULL.enumerator_state
    assert again.ledger == FULL.ledger
    assert again.plan == Plan()


def test_the_plan_is_read_without_any_author_code_R3() -> None:
    document = encoded(FULL)
    found = decode_document(document.data, document.name)
    ((stored, segment),) = found.plan_segments(loader(document))
    assert (stored.subtask, stored.events) == (1, [])
    assert json.loads(segment.data) == [
        {"split_id": "p", "files": 1, "rows": None, "bytes": None},
        {"split_id": "q", "files": 1, "rows": None, "bytes": None},
    ]
    assert SnapshotCodec(Shelf).decode_splits(found.source.split_version, segment) == items("p", "q")


def test_a_document_is_canonical_json_and_named_by_its_bytes_R11() -> None:
    document = encoded(FULL)
    value = json.loads(document.data)
    assert json.dumps(value, separators=(",", ":")).encode() == document.data
    for part in (value, value["ledger"], value["enumerator"], value["source"]):
        assert list(part) == sorted(part)
    assert document.name.checkpoint_id == 7
    assert encoded(FULL).name == document.name
    assert value["parent"] == str(PARENT)
    assert (value["format"], value["kind"], value["source"]["uid"]) == (1, "checkpoint", "orders")


def test_freezing_a_restored_snapshot_again_gives_the_same_bytes_S100() -> None:
    coordinator = coordinator_of(parallelism=3)
    shelf = shelf_of(coordinator)
    shelf.shelf.extend(items("a", "b", "c"))
    for subtask_id in (2, 0, 1):
        shelf.context.assign_split(Item(split_id=f"pinned-{subtask_id}"), subtask_id)
    first = frozen(coordinator)
    document = encoded(first.snapshot)
    assert encoded(decoded(document, with_plan=True)).data == document.data


def test_a_coordinator_made_from_a_document_freezes_the_same_state_S57_S91_S100() -> None:
    """If the enumerator makes no change, the next freeze has the state and the ledger that were restored."""

    class Idle(Shelf):
        asked = False

        def handle_split_request(self, subtask_id: int) -> None:
            if not self.asked:
                self.asked = True
                self.context.assign_split(Item(split_id="new"))

    stored = encoded(FULL, Idle)
    restored = coordinator_of(Idle, restored=decoded(stored, Idle), parallelism=4)
    again = frozen(restored).snapshot
    assert again.enumerator_state == FULL.enumerator_state
    assert again.ledger.finished == 42 + len(["live", "free", "pinned", "new"])
    assert freeze(coordinator_of(Idle, restored=decoded(stored, Idle), parallelism=4)) is not None


@dataclass(frozen=True)
class Holdings:
    big: Segment
    small: Segment
    text: Segment


class Holder(Shelf):
    state_type: ClassVar[Any] = Holdings


def test_large_segments_are_stored_next_to_the_document_and_small_ones_in_it() -> None:
    big = Segment.of("seen", b"x" * (INLINE_SEGMENT_BYTES + 1))
    small = Segment.of("seen", b"\x00\xff" * 8)
    text = Segment.of_values("splits", items("a"))
    document = encoded(snapshot_of(Holdings(big, small, text)), Holder)
    assert set(document.segments) == {big.name}
    assert decode_document(document.data, document.name).segments == {big.name}
    state = decoded(document, Holder).enumerator_state
    assert state == Holdings(big, small, text)
    assert state.small.data == small.data
    assert state.text.values(Item) == items("a")
    assert state.big.size == len(big.data)
    assert state.big.data == big.data


def test_without_a_state_location_every_segment_is_in_the_document() -> None:
    big = Segment.of("seen", bytes(range(256)) * 100)
    text = Segment.of_values("splits", [Item(split_id=str(i)) for i in range(500)])
    document = encoded(snapshot_of(Holdings(big, big, text)), Holder, inline_all=True)
    assert document.segments == {}
    found = decode_document(through_spark(document.data))
    state = SnapshotCodec(Holder).decode(found, _nothing).enumerator_state
    assert state.big.data == big.data
    assert len(state.text.values(Item)) == 500


def through_spark(data: bytes) -> bytes:
    """An inline document after a round trip through Spark's offset log, as CheckpointStorage reads it."""
    return msgspec.json.encode(json.loads(json.dumps(msgspec.json.decode(data))))


def _nothing(name: str) -> bytes:
    raise AssertionError(f"{name} was asked for")


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A split with values of kinds that do not all survive a careless conversion to JSON."""

    split_id: str
    number: int
    ratio: float
    raw: bytes
    names: dict[str, int]


class Positions(Shelf):
    split_type: ClassVar[Any] = Position


@pytest.mark.parametrize("inline_all", [True, False], ids=["inline", "file"])
@pytest.mark.parametrize(
    "split",
    [
        Position(
            split_id='ä€😀\u2028\x00\\"', number=2**63, ratio=1e22, raw=b"\x00\xff", names={"b": 1, "a": 2}
        ),
        Position(split_id="", number=-(2**63), ratio=-0.0, raw=b"", names={}),
        Position(split_id="x", number=0, ratio=5e-324, raw=b"x", names={"": 0}),
        Position(split_id="y", number=1, ratio=1e16, raw=b"x", names={"\x7f": 0, "é": 1}),
        Position(split_id="z", number=1, ratio=123456789012345680.0, raw=b"x", names={}),
    ],
    ids=["unicode", "lowest", "tiny", "exponent", "long"],
)
def test_values_survive_sparks_json_bit_for_bit(split: Position, inline_all: bool) -> None:
    """An inline document is parsed and written again on its way; its segments keep their digests."""
    snapshot = Snapshot(
        metadata=CheckpointMetadata(checkpoint_id=1, timestamp_ms=0),
        enumerator_state=[],
        ledger=LedgerState(),
        plan=Plan(assignments=(Assignment(subtask_id=0, splits=(split,)),)),
    )
    document = encoded(snapshot, Positions, inline_all=inline_all)
    if inline_all:
        found = decode_document(through_spark(document.data))
    else:
        found = decode_document(document.data, document.name)
    ((_, segment),) = found.plan_segments(loader(document))
    (again,) = SnapshotCodec(Positions).decode_splits(1, segment)
    assert again == split
    assert str(again.ratio) == str(split.ratio)


DOCUMENT = encoded(FULL)


def test_a_document_cut_off_anywhere_is_refused() -> None:
    for length in range(0, len(DOCUMENT.data), 7):
        for name in (DOCUMENT.name, None):
            with pytest.raises(CorruptStateError, match="What to do: restore"):
                decode_document(DOCUMENT.data[:length], name)


def test_a_document_with_any_bit_flipped_is_refused() -> None:
    for index, bit in itertools.product(range(len(DOCUMENT.data)), range(8)):
        altered = bytearray(DOCUMENT.data)
        altered[index] ^= 1 << bit
        with pytest.raises(CorruptStateError, match=f"{DOCUMENT.name}.json does not match its digest"):
            decode_document(bytes(altered), DOCUMENT.name)


def test_a_document_with_trailing_bytes_is_refused() -> None:
    with pytest.raises(CorruptStateError):
        decode_document(DOCUMENT.data + b" {}")
    with pytest.raises(CorruptStateError):
        decode_document(DOCUMENT.data + b"\n", DOCUMENT.name)


def with_changes(**changes: Any) -> bytes:
    return json.dumps({**json.loads(DOCUMENT.data), **changes}).encode()


@pytest.mark.parametrize("version", [6, 99, 0])
def test_a_document_of_another_format_is_refused_before_the_rest_is_looked_at(version: int) -> None:
    with pytest.raises(IncompatibleStateError, match=f"has format {version}; this library reads 1") as caught:
        decode_document(json.dumps({"format": version, "new": "shape"}).encode())
    assert "install the version of flip27-source that wrote the document" in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"null", b"[]", b"{}", b'{"format":"1"}', with_changes(id="7"), with_changes(kind="backup"),
        with_changes(ledger={}), with_changes(source=None), with_changes(plan=[{"subtask": 0}]),
        with_changes(plan=[{"subtask": 0, "splits": 5}]),
    ],
    ids=lambda data: data[:24].decode(),
)  # fmt: skip
def test_data_that_is_not_a_document_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptStateError, match="cannot be read"):
        decode_document(data)


def test_a_segment_that_the_document_does_not_list_is_refused() -> None:
    name = Segment.of("plan", b"other").name
    found = decode_document(with_changes(plan=[{"subtask": 0, "splits": name}]))
    with pytest.raises(CorruptStateError, match=r"names segment .* but does not list it"):
        found.plan_segments(_nothing)


def test_a_segment_in_the_document_that_was_altered_is_refused() -> None:
    value = json.loads(DOCUMENT.data)
    (entry,) = (value["segments"][item["splits"]] for item in value["plan"])
    entry["json"][0]["split_id"] = "altered"
    found = decode_document(json.dumps(value).encode())
    ((_, segment),) = found.plan_segments(_nothing)
    with pytest.raises(CorruptStateError, match="does not match the digest in its name"):
        SnapshotCodec(Shelf).decode_splits(1, segment)


def stored_as(what: str, version: int, **changes: Any) -> CheckpointDocument:
    """The full document, with its state or its splits stored as of that version."""
    value = json.loads(DOCUMENT.data)
    if what == "state":
        value["enumerator"] = {"state": changes["state"], "version": version}
        value["ledger"]["waiting"] = []
    else:
        value["source"]["split_version"] = version
        value["ledger"]["live"] = changes["live"]
        value["ledger"]["waiting"] = []
    return decode_document(json.dumps(value).encode())


class Upgrading(Shelf):
    state_version: ClassVar[int] = 3
    split_version: ClassVar[int] = 2

    @classmethod
    def upgrade_state(cls, version: int, raw: Any) -> Any:
        return [{"split_id": f"{name}-from-{version}"} for name in raw]

    @classmethod
    def upgrade_split(cls, version: int, raw: Any) -> Any:
        return {"split_id": f"{raw}-from-{version}"}


def test_older_state_goes_through_the_upgrade_hook_S67() -> None:
    found = SnapshotCodec(Upgrading).decode(stored_as("state", 2, state=["a", "b"]), _nothing)
    assert found.enumerator_state == items("a-from-2", "b-from-2")


def test_older_splits_go_through_the_upgrade_hook_S67() -> None:
    found = SnapshotCodec(Upgrading).decode(
        stored_as("split", 1, live=["a"]), _nothing
    )  # the state is of version 1, too
    assert found.ledger.live == tuple(items("a-from-1"))
    plan = Segment.of_values("plan", ["a", "b"])
    assert SnapshotCodec(Upgrading).decode_splits(1, plan) == items("a-from-1", "b-from-1")


def test_an_upgrade_that_returns_the_wrong_type_is_refused() -> None:
    class Wrong(Upgrading):
        @classmethod
        def upgrade_state(cls, version: int, raw: Any) -> Any:
            return [{"id": name} for name in raw]

    with pytest.raises(CorruptStateError, match=r"stored state of .*Wrong does not match its type"):
        SnapshotCodec(Wrong).decode(stored_as("state", 2, state=["a"]), _nothing)


@pytest.mark.parametrize("what", ["state", "split"])
def test_a_missing_upgrade_hook_is_an_error_that_names_it(what: str) -> None:
    class Newer(Shelf):
        state_version: ClassVar[int] = 2 if what == "state" else 1
        split_version: ClassVar[int] = 2 if what == "split" else 1

    with pytest.raises(ContractError, match=f"the stored {what} has version 1") as caught:
        SnapshotCodec(Newer).decode(decode_document(DOCUMENT.data), _nothing)
    assert f"define upgrade_{what}(version, raw) in Newer" in str(caught.value)


@pytest.mark.parametrize(("what", "value"), [("state", {"state": []}), ("split", {"live": ["a"]})])
def test_state_of_newer_code_is_refused(what: str, value: dict[str, Any]) -> None:
    with pytest.raises(IncompatibleStateError, match=f"the stored {what} of .* has version 9") as caught:
        SnapshotCodec(Shelf).decode(stored_as(what, 9, **value), _nothing)
    assert "deploy the code that wrote the s" in str(caught.value)


def test_splits_of_newer_code_in_a_plan_are_refused() -> None:
    plan = Segment.of_values("plan", items("a"))
    with pytest.raises(IncompatibleStateError, match="has version 9"):
        SnapshotCodec(Shelf).decode_splits(9, plan)


def test_the_error_for_a_changed_type_without_a_new_version_says_what_to_do() -> None:
    with pytest.raises(CorruptStateError, match=r"stored state of .*Shelf does not match") as caught:
        SnapshotCodec(Shelf).decode(stored_as("state", 1, state=[{"renamed": 1}]), _nothing)
    assert "raise state_version and define upgrade_state" in str(caught.value)


def test_a_state_that_cannot_be_stored_as_json_is_refused_with_a_remedy() -> None:
    with pytest.raises(ContractError, match="cannot be stored as JSON") as caught:
        encoded(snapshot_of(object()))
    assert "a Segment for bulk data" in str(caught.value)
