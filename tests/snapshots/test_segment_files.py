"""Segments are immutable, named by their content, fetched on demand, and stored in a compressed form."""

from __future__ import annotations

import copy
import itertools
import pickle
import sys
import threading

import pytest

from flip27_source.errors import ContractError, CorruptStateError
from flip27_source.segment import Segment, content_digest
from flip27_source.snapshots.file_names import checked_segment_name
from flip27_source.snapshots.segment_files import pack_segment, unpack_segment
from tests.toy_sources import Item, items


def test_a_segment_is_named_by_its_content_and_kind() -> None:
    one = Segment.of("seen", b"data")
    assert one.name == f"{content_digest(b'data')}.seen.bin"
    assert one == Segment.of("seen", b"data")
    assert hash(one) == hash(Segment.of("seen", b"data"))
    assert one != Segment.of("seen", b"other")
    assert one != Segment.of("plan", b"data")
    assert checked_segment_name(one.name) == one.name


def test_values_are_read_back_unchanged() -> None:
    values = [Item(split_id="ä\n", bytes=2**53), Item(split_id="b", rows=None)]
    segment = Segment.of_values("splits", values)
    assert segment.holds_json
    assert segment.values(Item) == values
    assert checked_segment_name(segment.name) == segment.name


def test_values_that_do_not_fit_their_type_are_an_error_that_names_the_segment() -> None:
    segment = Segment.of_values("splits", [{"split_id": 3}])
    with pytest.raises(CorruptStateError, match=segment.name.replace(".", r"\.")):
        segment.values(Item)


def test_the_bytes_are_fetched_once_on_first_use() -> None:
    asked: list[str] = []

    def load(name: str) -> bytes:
        asked.append(name)
        return b"data"

    segment = Segment(Segment.of("seen", b"data").name, load=load, size=4)
    assert (segment.size, asked) == (4, [])
    assert (segment.data, segment.data) == (b"data", b"data")
    assert len(asked) == 1
    segment.forget()
    assert segment.data == b"data"
    assert len(asked) == 2


def test_bytes_that_cannot_be_fetched_again_are_kept() -> None:
    segment = Segment.of("seen", b"data")
    segment.forget()
    assert segment.data == b"data"
    segment.stored_by(lambda _: b"data")
    segment.forget()
    assert segment.data == b"data"


def test_bytes_that_do_not_match_the_name_are_refused() -> None:
    segment = Segment(Segment.of("seen", b"data").name, load=lambda _: b"tada")
    with pytest.raises(CorruptStateError, match="does not match the digest in its name"):
        _ = segment.data


def test_a_segment_without_bytes_and_place_is_an_error() -> None:
    with pytest.raises(CorruptStateError, match="neither data nor a place"):
        _ = Segment("x").data


@pytest.mark.parametrize("kind", ["Seen", "my kind", "a.b", "", "../../other", "x" * 33])
def test_a_kind_that_cannot_be_restored_is_refused_when_the_segment_is_made(kind: str) -> None:
    """Reading a document checks names: without this check the segment could be written but never be read."""
    with pytest.raises(ContractError, match="kind"):
        Segment.of(kind, b"data")
    with pytest.raises(ContractError, match="kind"):
        Segment.of_values(kind, items("a"))


def test_bytes_stay_complete_while_another_thread_forgets_them() -> None:
    """Discovery reads and then forgets a restored segment while the coordinator may be storing it."""
    segment = Segment(Segment.of("seen", b"data").name, load=lambda _: b"data")
    wrong: list[object] = []
    ended = threading.Event()

    def read() -> None:
        for _ in range(30_000):
            data: object = segment.data
            if data != b"data":
                wrong.append(data)
                break
        ended.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        thread = threading.Thread(target=read)
        thread.start()
        while not ended.is_set():
            segment.forget()
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []


@pytest.mark.parametrize("data", [b"", b"a", b"abc" * 100_000], ids=["empty", "one", "long"])
def test_packed_bytes_are_unpacked_unchanged(data: bytes) -> None:
    stored = pack_segment(data)
    assert unpack_segment("x", stored) == data
    assert len(stored) < len(data) // 100 or len(data) < 100


def test_a_segment_file_that_was_cut_off_anywhere_is_refused() -> None:
    stored = pack_segment(b"0123456789" * 20)
    for length in range(len(stored)):
        with pytest.raises(CorruptStateError, match="segment x cannot be unpacked"):
            unpack_segment("x", stored[:length])


def test_a_segment_file_with_any_bit_flipped_is_refused_or_holds_the_same_bytes() -> None:
    data = b"0123456789" * 5
    name = Segment.of("seen", data).name
    stored = pack_segment(data)
    refused = 0
    for index, bit in itertools.product(range(len(stored)), range(8)):
        flipped = bytearray(stored)
        flipped[index] ^= 1 << bit
        try:
            assert Segment(name, load=lambda name: unpack_segment(name, bytes(flipped))).data == data  # noqa: B023
        except CorruptStateError:
            refused += 1
    assert refused > len(stored) * 8 // 2


def test_a_header_with_an_impossible_size_is_refused_before_memory_is_allocated() -> None:
    stored = (1 << 62).to_bytes(8, "big") + pack_segment(b"abc")[8:]
    with pytest.raises(CorruptStateError, match="its header is damaged"):
        unpack_segment("x", stored)


def test_a_segment_is_immutable_and_copied_and_pickled_with_its_bytes() -> None:
    segment = Segment.of("seen", b"data")
    with pytest.raises(AttributeError, match="a segment is immutable"):
        segment.size = 5
    for copied in (copy.deepcopy(segment), pickle.loads(pickle.dumps(segment))):
        assert (copied.name, copied.size, copied.data) == (segment.name, 4, b"data")
