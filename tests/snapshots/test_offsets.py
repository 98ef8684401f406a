"""Offsets: values that Spark stores, compares as text, and passes back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flip27_source.errors import CorruptStateError, IncompatibleStateError
from flip27_source.snapshots.file_names import (
    CheckpointName,
    checked_lineage_name,
    checked_segment_name,
    checkpoint_file,
    lineage_name,
    segment_file,
    source_file,
)
from flip27_source.snapshots.offsets import INITIAL_OFFSET, Offset

DIGEST = "0123456789abcdef0123456789abcdef"
LINEAGE = "orders-0123456789abcdef"
IN_FILE = Offset(
    checkpoint_id=7, lineage=LINEAGE, name=CheckpointName(7, DIGEST), summary={"splits": 3, "b": 1}
)
INLINE = Offset(checkpoint_id=7, inline={"format": 1, "id": 7}, summary={"splits": 3})


def with_state(**state: Any) -> dict[str, Any]:
    return {"checkpoint": 7, "format": 1, "state": state, "summary": {}}


@pytest.mark.parametrize("offset", [IN_FILE, INLINE], ids=["file", "inline"])
def test_an_offset_survives_sparks_json_unchanged(offset: Offset) -> None:
    text = json.dumps(offset.to_json())
    again = Offset.from_json(json.loads(text))
    assert again == offset
    assert json.dumps(again.to_json()) == text


def test_equal_offsets_have_equal_text_whatever_the_order_of_their_summary() -> None:
    one = Offset(checkpoint_id=1, inline={}, summary={"a": 1, "b": 2})
    two = Offset(checkpoint_id=1, inline={}, summary={"b": 2, "a": 1})
    assert json.dumps(one.to_json()) == json.dumps(two.to_json())


def test_offsets_with_different_summaries_are_equal() -> None:
    """Otherwise a gauge that is not equal to itself (NaN) would reset the coordinator in every batch."""
    restarted = Offset(checkpoint_id=7, lineage=LINEAGE, name=CheckpointName(7, DIGEST))
    assert restarted == IN_FILE


def test_the_initial_offset_is_a_constant() -> None:
    assert json.dumps(INITIAL_OFFSET.to_json()) == (
        '{"checkpoint": 0, "format": 1, "state": {"inline": {}}, "summary": {}}'
    )
    assert Offset.from_json(INITIAL_OFFSET.to_json()).is_initial
    assert not IN_FILE.is_initial


def test_an_offset_with_state_in_files_contains_only_the_file_and_its_digest() -> None:
    assert IN_FILE.to_json()["state"] == {"digest": DIGEST, "file": f"{LINEAGE}/checkpoints/7-{DIGEST}.json"}
    assert len(json.dumps(IN_FILE.to_json())) < 512


@pytest.mark.parametrize("value", [None, 3, "7", [], {}, {"value": 17}, {"kafka-topic": {"0": 5}}], ids=str)
def test_the_offset_of_another_source_is_refused(value: Any) -> None:
    with pytest.raises(IncompatibleStateError, match="is not a flip27 offset") as caught:
        Offset.from_json(value)
    assert "use a new checkpoint location" in str(caught.value)


@pytest.mark.parametrize("version", [2, 0, "1", None])
def test_the_error_for_an_offset_of_another_format_says_what_to_install(version: Any) -> None:
    with pytest.raises(IncompatibleStateError, match="the offset has format") as caught:
        Offset.from_json({**IN_FILE.to_json(), "format": version})
    assert "install the version of flip27-source that wrote the offset" in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        {"format": 1},
        {**IN_FILE.to_json(), "checkpoint": "7"},
        {**IN_FILE.to_json(), "checkpoint": None},
        {**IN_FILE.to_json(), "state": "gone"},
        {**IN_FILE.to_json(), "state": {}},
        {**IN_FILE.to_json(), "checkpoint": 8},
        with_state(file=f"{LINEAGE}/checkpoints/7-{DIGEST}.json", digest="0" * 32),
        with_state(file=f"{LINEAGE}/checkpoints/7-{DIGEST}.json"),
        with_state(file=f"{LINEAGE}/segments/7-{DIGEST}.json", digest=DIGEST),
        with_state(file=f"checkpoints/7-{DIGEST}.json", digest=DIGEST),
        with_state(file=f"{LINEAGE}/checkpoints/7-{DIGEST[:-1]}.json", digest=DIGEST[:-1]),
        with_state(file=f"{LINEAGE}/checkpoints/../7-{DIGEST}.json", digest=DIGEST),
    ],
    ids=str,
)
def test_a_damaged_offset_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(CorruptStateError, match="damaged"):
        Offset.from_json(value)


@pytest.mark.parametrize(
    "lineage", ["..", "../x", ".", "", "/etc", "no-random", "a/b-0123456789abcdef", "C:\\x"]
)
def test_an_offset_cannot_refer_to_a_file_outside_the_state_location(lineage: str) -> None:
    value = with_state(file=f"{lineage}/checkpoints/7-{DIGEST}.json", digest=DIGEST)
    with pytest.raises(CorruptStateError):
        Offset.from_json(value)


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd", f"../{DIGEST}.seen.bin", f"{DIGEST}.seen.bin/..", f"{DIGEST}.seen.exe",
        f"{DIGEST}..bin", f"{DIGEST.upper()}.seen.bin", f"{DIGEST}.seen.bin\n", "",
    ],
)  # fmt: skip
def test_a_segment_name_cannot_leave_its_folder(name: str) -> None:
    with pytest.raises(CorruptStateError, match="is not the name of a segment"):
        checked_segment_name(name)


@pytest.mark.parametrize(
    "uid",
    [
        "orders", "Orders v2", "a/../b", "..", "...", "", ".hidden", "orders..v2", "päckchen", "x" * 500,
        "a\nb", "-",
    ],
)  # fmt: skip
def test_the_lineage_of_any_uid_can_be_found_again(uid: str) -> None:
    name = lineage_name(uid, "0123456789abcdef")
    assert checked_lineage_name(name) == name
    assert not name.startswith(".")
    assert "/" not in name
    assert len(name) < 200


def test_all_paths_of_a_lineage_are_in_its_directory() -> None:
    assert checkpoint_file(LINEAGE, CheckpointName(7, DIGEST)) == f"{LINEAGE}/checkpoints/7-{DIGEST}.json"
    assert segment_file(LINEAGE, "x") == f"{LINEAGE}/segments/x"
    assert source_file(LINEAGE) == f"{LINEAGE}/source.json"


@pytest.mark.parametrize("text", [f"7-{DIGEST}", f"7-{DIGEST}.json"])
def test_a_checkpoint_name_is_read_with_and_without_its_ending(text: str) -> None:
    assert CheckpointName.parse(text) == CheckpointName(7, DIGEST)


@pytest.mark.parametrize(
    "text", ["", "7", f"-{DIGEST}", f"x-{DIGEST}", f"7-{DIGEST}.tmp", ".tmp-7", f"7-{DIGEST}0"]
)
def test_other_files_are_not_taken_for_checkpoints(text: str) -> None:
    assert CheckpointName.parse(text) is None


def test_checkpoint_names_sort_by_number() -> None:
    assert CheckpointName(9, "f" * 32) < CheckpointName(10, "0" * 32)
