"""The base path of each file of a source with several paths."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from flip27_source.readers.files.base_paths import BasePaths, parts_of_listed
from flip27_source.schemas.ddl import columns_text, parse_columns
from flip27_source.schemas.source_schema import schema_of
from flip27_source.source import Source
from flip27_source.testing import MicroBatchEngine


def land(folder: Path, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.json").write_text(json.dumps({"id": number}) + "\n")


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    land(tmp_path / "env=prod" / "deep" / "orders" / "day=1", 1)
    land(tmp_path / "old" / "day=2", 2)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "paths"),
    [
        ("env=prod/deep/orders", ["old"]),
        ("old", ["env=prod/deep/orders"]),
        (None, ["env=prod/deep/orders", "old"]),
        ("old", ["env=*/*/orders"]),
    ],
)
def test_partition_columns_begin_below_the_path_that_contains_the_file(
    landing: Path, path: str | None, paths: list[str]
) -> None:
    options = {"enumerator": "files", "reader": "json", "stateLocation": str(landing / "state")}
    if path is not None:
        options["path"] = f"{landing}/{path}"
    options["paths"] = json.dumps([f"{landing}/{one}" for one in paths])
    schema = parse_columns("id long, day int, env string")
    engine = MicroBatchEngine(options, schema=schema)
    engine.process_all_available()
    assert sorted(engine.rows) == [(1, 1, None), (2, 2, None)]
    assert columns_text(schema_of(Source.resolve(options))) == "id bigint, day int"


def test_one_of_paths_is_a_base_path_as_path_is(landing: Path) -> None:
    options = {"enumerator": "files", "reader": "json", "paths": f"{landing}/env=prod/deep/orders"}
    engine = MicroBatchEngine(options, schema=parse_columns("id long, day int, env string"))
    engine.process_all_available()
    assert engine.rows == [(1, 1, None)]


@pytest.mark.parametrize(
    ("folder", "names", "depth"),
    [
        ("/a/b/k=1", ("/a", "/a/b"), 2),
        ("/a/k=1/b/l=1", ("/a", "/a/k=1/b"), 3),
        ("/a/k=1", ("/a", "/a/k=1"), 1),
        ("/a/k=1", ("/b", "/a/*/*.json", "/a/k=*"), 2),
        ("/a", ("/b", "/a/*.json"), 2),
        ("/else/where", ("/a", "/b/c"), 7),
        ("s3://in/a/k=1", ("in/a", "in/b/c"), 2),
    ],
)
def test_a_directory_in_several_paths_has_the_shortest_one(
    folder: str, names: Sequence[str], depth: int
) -> None:
    assert BasePaths(depth=7, names=tuple(names)).depth_of(parts_of_listed(folder)) == depth
