"""Ids of file splits: each text denotes one split, and is parsed to the split from which it was written."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flip27_source.file_systems.file_ids import FileSplitId
from flip27_source.segment import content_digest

TEXTS = st.text(st.sampled_from("abt/@#-0123._"), min_size=1, max_size=12)
VERSIONS = st.one_of(st.none(), st.text(st.sampled_from("abcXYZ019-_"), min_size=1, max_size=8))
BOUNDS = st.one_of(st.none(), st.integers(-20, 20))
IDS = st.one_of(
    st.builds(
        FileSplitId,
        path=TEXTS,
        version=VERSIONS,
        start=st.integers(0, 20),
        end=st.one_of(st.none(), st.integers(21, 40)),
    ),
    st.builds(FileSplitId, path=TEXTS, version=VERSIONS, bucket=st.tuples(BOUNDS, BOUNDS)),
)


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("/a", FileSplitId(path="/a")),
        ("/a#0-5", FileSplitId(path="/a", end=5)),
        ("/a#5-", FileSplitId(path="/a", start=5)),
        ("/a@v1", FileSplitId(path="/a", version="v1")),
        ("/a@v1#5-9", FileSplitId(path="/a", version="v1", start=5, end=9)),
        ("/me@x.com/a", FileSplitId(path="/me@x.com/a")),
        ("/a#b", FileSplitId(path="/a#b")),
        ("/a#0-5@#0-", FileSplitId(path="/a#0-5")),
        ("/a@v1@#0-", FileSplitId(path="/a@v1")),
        ("/a@v1@#5-9", FileSplitId(path="/a@v1", start=5, end=9)),
        ("/a#t..5", FileSplitId(path="/a", bucket=(None, 5))),
        ("/a@v1#t-3..5", FileSplitId(path="/a", version="v1", bucket=(-3, 5))),
        ("/a#t1..2@#0-", FileSplitId(path="/a#t1..2")),
        ("/a@v1@#t5..", FileSplitId(path="/a@v1", bucket=(5, None))),
    ],
)
def test_an_id_names_the_file_its_version_and_its_bytes(text: str, split: FileSplitId) -> None:
    assert str(split) == text
    assert FileSplitId.parse(text) == split


@given(IDS)
def test_an_id_is_parsed_back_unchanged(split: FileSplitId) -> None:
    assert FileSplitId.parse(str(split)) == split


@given(IDS, IDS)
def test_different_splits_have_different_ids(first: FileSplitId, second: FileSplitId) -> None:
    assert (str(first) == str(second)) == (first == second)


@given(TEXTS)
@example("#0-")
def test_any_text_is_a_valid_file_id(text: str) -> None:
    assert FileSplitId.parse(text).path


def test_a_version_with_unsupported_characters_is_kept_as_its_digest() -> None:
    split_id = str(FileSplitId(path="/a", version='W/"1@2#3"', end=5))
    assert FileSplitId.parse(split_id) == FileSplitId(path="/a", version=content_digest(b'W/"1@2#3"'), end=5)
