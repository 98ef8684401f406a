"""Records of a JSON API have the values that Spark's JSON reader returns for them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from flip27_source.errors import SchemaError, SplitReadError
from tests.http_api import HttpApi, Says
from tests.readers.http_api.reading import reader_of, split_of
from tests.readers.json_lines.json_documents import TYPES, VALUES
from tests.readers.spark_reading import arrow_schema, as_dataframe


def table(api: HttpApi, records: list[bytes], schema: str, **options: str) -> pa.Table:
    """Read the records as one page."""
    api.misbehaves(Says(b"[" + b" ,\r\n ".join(records) + b"]"))
    wanted = arrow_schema(schema)
    reader = reader_of(api, options, schema=wanted)
    batches = [item for item in reader.read(split_of(api, "none")) if isinstance(item, pa.RecordBatch)]
    reader.close()
    return pa.Table.from_batches(batches, wanted)


def is_json(value: bytes) -> bool:
    """Whether the value is JSON as far as the list of records is parsed, where text need not be UTF-8."""
    if value in (b"NaN", b"Infinity", b"-Infinity", b"+Infinity", b"-INF", b"+INF"):
        return True
    try:
        msgspec.json.decode(b"[%s]" % value, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def test_values_of_every_type_are_read_as_in_spark(spark: SparkSession, api: HttpApi, tmp_path: Path) -> None:
    schema = ", ".join(f"c{number} {kind}" for number, kind in enumerate(TYPES)) + ", _corrupt_record string"
    values = [value for value in VALUES if is_json(value) and len(value) < 500]
    records = [
        b"{" + b",".join(b'"c%d":%s' % (number, value) for number in range(len(TYPES))) + b"}"
        for value in values
    ]
    (tmp_path / "records.json").write_bytes(b"\n".join(records))
    ours = as_dataframe(spark, table(api, records, schema), schema)
    theirs = spark.read.schema(schema).json(str(tmp_path)).coalesce(1)
    assert len(values) > 100
    as_text = "to_json(struct(*)) as row"  # because Python has no years with more than four digits
    assert_df_equality(ours.selectExpr(as_text), theirs.selectExpr(as_text), ignore_row_order=True)


def test_plain_records_take_the_fast_path_and_pretty_ones_are_read_too(
    spark: SparkSession, api: HttpApi
) -> None:
    records = [b'{"id": 1,\n\t"name":\r\n "a\\nb", "more": [1,\n2]}', b'{"name": null, "id": 2}', b"{}"]
    rows = table(api, records, "id long, name string").to_pylist()
    assert rows == [{"id": 1, "name": "a\nb"}, {"id": 2, "name": None}, {"id": None, "name": None}]


def test_malformed_records_are_kept_dropped_or_refused_by_mode(spark: SparkSession, api: HttpApi) -> None:
    records = [b'{"id": 1}', b'{"id": "x"}', b'{"id": 3}']
    kept = table(api, records, "id long, _corrupt_record string").to_pylist()
    assert kept == [
        {"id": 1, "_corrupt_record": None},
        {"id": None, "_corrupt_record": '{"id": "x"}'},
        {"id": 3, "_corrupt_record": None},
    ]
    assert table(api, records, "id long", mode="DROPMALFORMED")["id"].to_pylist() == [1, 3]
    with pytest.raises(SplitReadError, match=r"/none/orders: record 1 of the page: the record is malformed"):
        table(api, records, "id long", mode="FAILFAST")


def test_a_null_in_a_column_that_is_not_null_is_refused(spark: SparkSession, api: HttpApi) -> None:
    with pytest.raises(
        SplitReadError, match=r"record 1 of the page: the column id is NOT NULL.*'{\"id\": null}'"
    ):
        table(api, [b'{"id": 1}', b'{"id": null}'], "id long not null")


def test_the_column_for_malformed_records_must_be_a_string(spark: SparkSession, api: HttpApi) -> None:
    with pytest.raises(SchemaError, match="_corrupt_record for malformed records has the type int64"):
        table(api, [], "id long, _corrupt_record long")
