"""The reader that the names of files tell, and the names that are refused."""

from __future__ import annotations

import pytest

from flip27_source.enumerators.files.readers_by_name import check_reader, reader_for, reader_for_all
from flip27_source.errors import OptionError
from flip27_source.registry import find_reader


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("/in/a.json", "json"),
        ("s3://bucket/in/A.JSON", "json"),
        ("a.jsonl.gz", "json"),
        ("a.ndjson.zst", "json"),
        ("a.csv.bz2", "csv"),
        ("a.txt", "text"),
        ("part-00000-2f.c000.snappy.parquet", "parquet"),
        ("part-00000.gz.parquet", "parquet"),
        ("a.orc", "orc"),
        ("a.avro", "avro"),
        ("a.feather", "arrow"),
        # Names that tell no reader, or a compression that the reader does not undo.
        ("part-00000", None),
        ("a.tsv", None),
        ("a.gz", None),
        ("a.parquet.gz", None),
        ("a.json.lz4", None),
        ("a.json.tmp", None),
        ("/in.json/a", None),
        (".json", None),
    ],
)
def test_a_name_tells_its_reader_or_none(name: str, reader: str | None) -> None:
    assert reader_for(name) == reader
    assert reader is None or find_reader(reader)


@pytest.mark.parametrize(
    ("names", "says", "remedy"),
    [
        ([], "no file in s3://bucket/in yet whose name tells it", "or start when the first file exists"),
        (["a.json", "b.csv"], "json for a.json, csv for b.csv", '"pathGlobFilter", "*.json*"'),
        (["a.csv", "b.xyz"], "the name of b.xyz does not tell it", '"pathGlobFilter", "*.csv*"'),
        (["b", "a.csv"], "the name of b does not tell it", '"pathGlobFilter", "*.csv*"'),
        (["b"], "the name of b does not tell it", '.option("reader", ...): json, csv'),
    ],
)
def test_a_choice_that_would_be_a_guess_is_refused_by_name(names: list[str], says: str, remedy: str) -> None:
    with pytest.raises(OptionError, match="option reader is not set") as caught:
        reader_for_all(names, "s3://user:secret@bucket/in")
    assert says in caught.value.what.replace("***@", "")
    assert remedy in str(caught.value.remedy)
    assert "secret" not in str(caught.value)


def test_a_filter_that_no_file_would_pass_is_not_suggested() -> None:
    with pytest.raises(OptionError) as caught:
        reader_for_all(["1.zip", "part-0001"], "/in")
    assert "pathGlobFilter" not in str(caught.value.remedy)


def test_files_of_one_kind_may_be_compressed_or_not() -> None:
    assert reader_for_all(["a.json", "b.JSON", "c.jsonl.gz"], "/in") == "json"
    check_reader(["d.ndjson.zst"], "json")
    with pytest.raises(
        OptionError, match=r"the name of e\.csv tells the reader csv, and this query reads with json"
    ):
        check_reader(["d.json", "e.csv"], "json")
