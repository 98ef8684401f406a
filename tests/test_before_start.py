"""What is checked before a start: at load(), or at the start if a schema is given."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import pytest

from flip27_source.errors import Flip27Error, OptionError
from flip27_source.spark.data_source import Flip27DataSource
from flip27_source.testing import MicroBatchEngine
from tests.s3_server import S3Bucket

ON_A_SERVER = {
    "kafka": {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"},
    "postgres": {"host": "127.0.0.1", "port": "1", "database": "shop", "tables": "orders", "user": "ann"},
    "sql": {"uri": "postgresql://127.0.0.1:1/shop", "table": "orders", "cursorColumns": "id"},
    "http": {"path": "http://127.0.0.1:1/orders"},
}


@pytest.mark.parametrize(
    ("enumerator", "more", "module", "says"),
    [
        ("files", {"reader": "avro"}, "fastavro", "the avro reader needs the package fastavro"),
        ("kafka", {}, "confluent_kafka", "the kafka source needs the package confluent-kafka"),
        ("kafka", {"valueFormat": "avro"}, "fastavro", "valueFormat=avro needs the package fastavro"),
        ("kafka", {"valueFormat": "protobuf"}, "google.protobuf", "needs the package protobuf"),
        ("kafka", {"schemaRegistryUrl": "http://r"}, "requests", "schemaRegistryUrl needs the package"),
        ("postgres", {}, "psycopg", "the postgres source needs the package psycopg"),
        ("sql", {}, "sqlalchemy", "the sql source needs the package sqlalchemy"),
        ("sql", {"driver": "sqlite"}, "adbc_driver_sqlite", "needs the package adbc_driver_sqlite"),
        ("http", {}, "requests", "the http reader needs the package requests"),
    ],
)
def test_a_missing_package_is_an_error_that_says_what_to_install(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    enumerator: str,
    more: dict[str, str],
    module: str,
    says: str,
) -> None:
    monkeypatch.delitem(sys.modules, "flip27_source.readers.http_api.connections", raising=False)
    # A module that was imported once is also an attribute of its package.
    monkeypatch.delattr("flip27_source.readers.http_api.connections", raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    given = ON_A_SERVER.get(enumerator, {"path": str(tmp_path)})
    with pytest.raises(Flip27Error, match=says) as caught:
        Flip27DataSource({"enumerator": enumerator, **given, **more})
    assert "pip install 'flip27-source[" in str(caught.value.remedy)


@pytest.mark.parametrize("enumerator", ON_A_SERVER)
def test_a_server_that_is_down_may_be_back_when_the_query_asks_for_it(enumerator: str) -> None:
    Flip27DataSource({"enumerator": enumerator, **ON_A_SERVER[enumerator]})


def test_a_path_that_does_not_exist_is_an_error_without_the_calls_of_the_source(tmp_path: Path) -> None:
    missing = {"path": f"{tmp_path}/landng", "reader": "json"}
    with pytest.raises(OptionError, match="landng does not exist") as caught:
        Flip27DataSource(missing)
    assert len(traceback.extract_tb(caught.tb)) <= 4
    assert caught.value.__cause__ is None
    Flip27DataSource({**missing, "ignoreMissingFiles": "true"})


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        ({"latestFirst": "true", "fileOrder": "name"}, "latestFirst is true"),
        ({"cleanSource": "archive"}, "sourceArchiveDir"),
        ({"modifiedAfter": "2026-01-01T00:00:00"}, "without a time zone"),
        ({"path": "nowhere://a/b"}, "nowhere://a/b cannot be opened"),
    ],
)
def test_options_that_cannot_be_used_together_are_an_error(
    tmp_path: Path, mistake: dict[str, str], says: str
) -> None:
    with pytest.raises(OptionError, match=says):
        Flip27DataSource({"path": str(tmp_path), "reader": "json", **mistake})


def test_a_prefix_without_objects_is_left_to_the_start_which_knows_whether_a_query_has_emptied_it(
    s3_bucket: S3Bucket,
) -> None:
    given = {"path": f"{s3_bucket.url}/in", "reader": "text", **s3_bucket.options}
    Flip27DataSource(given)
    with pytest.raises(OptionError, match="/in does not exist"):
        MicroBatchEngine(given).run_batch()
