"""``flip27 import spark-files`` and ``list``: a new query starts after the files that another has read."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.command_line import Said, flip27
from tests.cli.spark_query import SparkQuery


def asking(query: SparkQuery, *words: str) -> list[str | Path]:
    return ["import", "spark-files", "--checkpoint", query.checkpoint, "--state", query.state, *words]


def importing(query: SparkQuery, *words: str) -> list[str | Path]:
    return [*asking(query, *words), "--json"]


def test_a_new_query_starts_with_the_first_file_that_spark_has_not_read(tmp_path: Path) -> None:
    query = SparkQuery(tmp_path)
    query.land("a b", "50%", "%20", "é", "c", "new")
    query.log("9.compact", query.entry("50%25", 3), query.entry("a%20b", 0), query.entry("%2520", 9))
    query.log("10", query.entry("é", 10))
    query.log("11", query.entry("c", 11))
    query.batch(10)
    query.batch(11)
    said = flip27(*importing(query, "--execute"))
    assert (said.data["files"], said.data["read_twice"], said.data["batch_id"]) == (5, [], 11)
    assert query.read_by(said) == ["new"]


def test_files_of_a_batch_that_was_not_committed_are_read(tmp_path: Path) -> None:
    query = SparkQuery(tmp_path)
    query.land("a", "b", "c")
    query.log("0", query.entry("a", 0))
    query.log("1.compact", query.entry("b", 1), query.entry("a", 0))
    query.log("2", query.entry("c", 2))
    query.batch(0)
    query.batch(1, committed=False)
    said = flip27(*importing(query, "--execute"))
    assert said.code == 3
    assert said.data["read_twice"] == [f"{query.landing}/b", f"{query.landing}/c"]
    assert "batch 1 of the old query is planned and not committed" in flip27(*asking(query)).err
    assert query.read_by(Said(0, said.out, "")) == ["b", "c"]


def test_a_dry_run_compares_and_writes_nothing(tmp_path: Path) -> None:
    query = SparkQuery(tmp_path)
    query.land("1/a", "2/b", "2/new")
    query.read("1/a", "2/b", "2/gone")
    said = flip27(*importing(query, "--option", f"path={query.landing}/*"))
    assert said.code == 0, said.err
    assert said.data["pattern"] == {"path": f"{query.landing}/*", "is_recursive": False}
    assert said.data["listing"] == {"found": 3, "known": 2, "new": 1, "gone": 1, "old": 0}
    assert "savepoint" not in said.data["options"]
    assert "nothing was written" in flip27(*asking(query)).err
    assert not query.state.exists()


def test_a_path_without_any_known_file_is_reported_and_can_be_rewritten(tmp_path: Path) -> None:
    query = SparkQuery(tmp_path)
    query.land("a", "b")
    query.log("0", '{"path":"dbfs:/mnt/in/a","timestamp":1,"batchId":0}')
    query.batch(0)
    path = ("--option", f"path={query.landing}")
    said = flip27(*asking(query, *path))
    assert said.code == 3
    assert "the path contains none of the known files" in said.err
    mended = flip27(*importing(query, *path, "--path-rewrite", f"dbfs:/mnt/in={query.landing}", "--execute"))
    assert query.read_by(mended) == ["b"]


def test_a_file_that_was_read_under_another_name_is_reported(tmp_path: Path) -> None:
    query = SparkQuery(tmp_path)
    query.land("a", "b")
    modified_ms = (query.landing / "b").stat().st_mtime_ns // 1_000_000
    query.log(
        "0",
        query.entry("a", 0),
        json.dumps({"path": "file:///mnt/landing/b", "timestamp": modified_ms, "batchId": 0}),
    )
    query.batch(0)
    said = flip27(*importing(query, "--option", f"path={query.landing}"))
    assert (said.code, said.data["read_twice"]) == (3, [f"{query.landing}/b"])


def test_an_imported_query_still_identifies_files_by_name_only(tmp_path: Path) -> None:
    query = SparkQuery(tmp_path)
    query.land("1/a", "1/b")
    query.log("0", '{"path":"file:///elsewhere/a","timestamp":1,"batchId":0}')
    query.batch(0)
    options = ("--option", f"path={query.landing}/1", "--option", "fileNameOnly=true")
    said = flip27(*importing(query, *options, "--execute"))
    assert said.data["listing"]["known"] == 1
    assert query.read_by(said, fileNameOnly="true") == ["1/b"]


def test_one_of_several_file_sources_has_to_be_chosen(tmp_path: Path) -> None:
    query = SparkQuery(tmp_path, source="1")
    query.log("0", query.entry("a", 0))
    query.batch(0, '{"orders":{"0":1}}', '{"logOffset":0}')
    assert flip27(*importing(query)).data["files"] == 1
    query.batch(1, '{"logOffset":0}', '{"logOffset":0}')
    assert "add --source" in flip27(*asking(query)).err
    assert flip27(*importing(query, "--source", "1")).data["files"] == 1
    query.batch(2, '{"orders":{"0":1}}')
    assert "has 0 file sources" in flip27(*asking(query)).err


def test_sources_with_names_in_the_offset_log_are_found(tmp_path: Path) -> None:
    query = SparkQuery(tmp_path, source="landing")
    query.read("a")
    offsets = query.checkpoint / "offsets/0"
    offsets.write_text('v2\n{"conf":{}}\nlanding:{"logOffset":0}')
    assert flip27(*importing(query)).data["files"] == 1


def test_an_incomplete_log_is_refused(tmp_path: Path) -> None:
    query = SparkQuery(tmp_path)
    query.log("0", query.entry("a", 0))
    query.log("2", query.entry("c", 2))
    query.batch(2)
    assert "has no file for batch 1" in flip27(*asking(query, "--execute")).err
    query.log("1", query.entry("b", 1)[:-1])
    damaged = flip27(*asking(query, "--execute"))
    assert (damaged.code, "line 2 of sources/0/1 is damaged" in damaged.err) == (1, True)
    query.log("1.compact", query.entry("b", 1), query.entry("a", 0))
    (query.checkpoint / "sources/0/1").unlink()
    assert flip27(*importing(query)).data["files"] == 3
    assert not query.state.exists()


AT = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def write_parquet(file: Path, rows: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), file)


def write_csv(file: Path, rows: list[dict[str, Any]]) -> None:
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def listing(query: SparkQuery, file: str | Path, *words: str) -> list[str | Path]:
    return ["import", "list", "--file", file, "--state", query.state, *words]


@pytest.mark.parametrize("name", ["state.parquet", "state.csv", "folder/part-0.parquet", "folder/part-0.csv"])
def test_files_committed_by_auto_loader_are_known(tmp_path: Path, name: str) -> None:
    query = SparkQuery(tmp_path)
    query.land("a, a", "50%25", "b", "new")
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    # The relevant columns of cloud_files_state; b has been found but not committed.
    rows = [
        {"path": f"{query.landing}/a, a", "size": 1, "create_time": AT, "commit_time": AT},
        {"path": f"{query.landing}/50%25", "size": 1, "create_time": AT, "commit_time": AT},
        {"path": f"{query.landing}/b", "size": 1, "create_time": AT, "commit_time": None},
    ]
    (write_csv if name.endswith("csv") else write_parquet)(file, rows)
    place = file.parent if name.startswith("folder") else file
    said = flip27(*listing(query, place, "--execute", "--json"))
    assert (said.code, said.data["files"]) == (3, 2)
    assert said.data["read_twice"] == [f"{query.landing}/b"]
    assert "add --uncommitted" in flip27(*listing(query, place)).err
    assert query.read_by(Said(0, said.out, "")) == ["b", "new"]
    all_read = flip27(*listing(query, place, "--uncommitted", "--execute", "--json"))
    assert (all_read.data["files"], query.read_by(all_read)) == (3, ["new"])


def test_file_names_are_read_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = SparkQuery(tmp_path)
    query.land("a b", "c", "new")
    lines = f"\ufefffile://{query.landing}/a%20b\n\n{query.landing}/c\r\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    said = flip27(*listing(query, "-", "--encoded", "--execute", "--json"))
    assert query.read_by(said) == ["new"]


def test_paths_are_strings_or_bytes_in_one_column(tmp_path: Path) -> None:
    query = SparkQuery(tmp_path)
    query.land("a", "new")
    file = tmp_path / "files.parquet"
    pq.write_table(pa.table({"path": [f"{query.landing}/a".encode()]}), file)
    assert query.read_by(flip27(*listing(query, file, "--execute", "--json"))) == ["new"]
    for column, said in (([b"/\xff"], "column path: "), ([1], "has a column path of type int64")):
        pq.write_table(pa.table({"path": column}), file)
        assert said in flip27(*listing(query, file)).err
    (tmp_path / "twice.csv").write_text("path,path\n/a,/b\n")
    assert "has several columns path" in flip27(*listing(query, tmp_path / "twice.csv")).err


def test_a_list_without_a_path_column_is_refused(tmp_path: Path) -> None:
    query = SparkQuery(tmp_path)
    query.land("a", "new")
    write_csv(tmp_path / "files.csv", [{"file_name": f"{query.landing}/a", "rows": 1}])
    refused = flip27(*listing(query, tmp_path / "files.csv", "--execute"))
    assert (refused.code, "has no column path; its columns are file_name, rows" in refused.err) == (1, True)
    said = flip27(*listing(query, tmp_path / "files.csv", "--column", "file_name", "--execute", "--json"))
    assert query.read_by(said) == ["new"]
    (tmp_path / "files.parquet").write_bytes(b"no parquet")
    assert "cannot be read" in flip27(*listing(query, tmp_path / "files.parquet")).err
    assert "does not exist" in flip27(*listing(query, tmp_path / "gone.csv")).err
