"""Columns of records are those that Arrow would make of the values, but pandas is not imported."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from flip27_source.readers.kafka.arrow_records import HEADERS, RECORD_SCHEMA, Run, columns, record_schema


@dataclass(frozen=True)
class Record:
    """A record with the methods of a confluent-kafka message."""

    fields: dict[str, Any]

    def key(self) -> bytes | None:
        return cast("bytes | None", self.fields["key"])

    def value(self) -> bytes | None:
        return cast("bytes | None", self.fields["value"])

    def offset(self) -> int:
        return cast("int", self.fields["offset"])

    def timestamp(self) -> tuple[int, int]:
        return cast("tuple[int, int]", self.fields["timestamp"])

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return cast("list[tuple[str, bytes | None]] | None", self.fields["headers"])


RECORDS = st.builds(
    lambda **fields: Record(fields),
    key=st.none() | st.binary(max_size=4),
    value=st.none() | st.binary(max_size=9),
    offset=st.integers(0, 2**62),
    timestamp=st.tuples(st.sampled_from([0, 1, 2]), st.integers(-1, 2**52)),
    headers=st.none()
    | st.lists(st.tuples(st.text(max_size=2), st.none() | st.binary(max_size=2)), max_size=2),
)
RUNS = st.lists(
    st.tuples(
        st.sampled_from(["orders", "käse", "o"]), st.integers(0, 2**31 - 1), st.lists(RECORDS, min_size=1)
    ),
    min_size=1,
    max_size=3,
)


@given(RUNS)
def test_columns_equal_those_that_arrow_builds_from_the_values(
    found: list[tuple[str, int, list[Record]]],
) -> None:
    runs = [
        Run(topic=topic, partition=partition, messages=cast("Any", records), size=0, range_id="")
        for topic, partition, records in found
    ]
    schema = record_schema(include_headers=True)
    batch = pa.RecordBatch.from_arrays(columns(schema.names, runs), schema=schema)
    batch.validate(full=True)
    records = [record.fields for _, _, records in found for record in records]
    expected: dict[str, list[Any]] = {
        "key": [record["key"] for record in records],
        "value": [record["value"] for record in records],
        "topic": [topic for topic, _, records in found for _ in records],
        "partition": [partition for _, partition, records in found for _ in records],
        "offset": [record["offset"] for record in records],
        "timestamp": [record["timestamp"][1] * 1000 for record in records],
        "timestampType": [record["timestamp"][0] - 1 for record in records],
    }
    for name, values in expected.items():
        kind = pa.int64() if name == "timestamp" else RECORD_SCHEMA.field(name).type
        column = batch.column(name)
        assert (column.cast(pa.int64()) if name == "timestamp" else column).equals(pa.array(values, kind))
    headers = [record["headers"] or None for record in records]
    assert batch.column("headers").equals(pa.array(headers, HEADERS))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9))
@example([1_760_000_000 * 10**9, 0, -(2**63), 9_223_372_036_854_775, 9_223_372_036_854_776])
def test_a_time_that_does_not_fit_into_microseconds_is_null(times: list[int]) -> None:
    fields = {"key": None, "value": b"v", "offset": 1, "headers": None}
    records = [Record({**fields, "timestamp": (1, time)}) for time in times]
    run = Run(topic="t", partition=0, messages=cast("Any", records), size=0, range_id="")
    (column,) = columns(["timestamp"], [run])
    column.validate(full=True)
    expected = [time * 1000 if -(2**63) <= time * 1000 < 2**63 else None for time in times]
    assert column.cast(pa.int64()).to_pylist() == expected


def test_building_the_record_columns_does_not_import_pandas() -> None:
    program = """
import sys
from tests.readers.kafka.test_arrow_records import Record, Run, RECORD_SCHEMA, columns
assert "pandas" not in sys.modules
fields = {"key": None, "value": b"v", "offset": 1, "timestamp": (1, 2), "headers": None}
runs = [Run("orders", partition, [Record(fields)] * 2, 2, "") for partition in (0, 1)]
print(len(columns([*RECORD_SCHEMA.names, "headers"], runs)), "pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "8 False\n"
