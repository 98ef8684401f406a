"""The event times of ORC files, by the statistics in their footers."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyarrow import orc

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import DiscoveryError, OptionError, SplitReadError
from flip27_source.event_time import EventTimeRange
from flip27_source.readers.columnar.orc import OrcReader
from flip27_source.readers.columnar.orc_times import times_in_tail
from flip27_source.source import Source

NOON_US = 1_704_110_400_000_000
SECOND_US = 1_000_000
IN_BERLIN = bytes.fromhex(
    "0a1808f4011005188080102202000c2860300982f403034f5243128f02080310a5021a0b0803108401183a2064280322"
    "11080c12030102031a0261741a016e1a0164222808093a240a17737061726b2e73716c2e636174616c7973742e747970"
    "65120974696d657374616d70222c08043a280a17737061726b2e73716c2e636174616c7973742e74797065120d74696d"
    "657374616d705f6e747a2202080f2a210a186f72672e6170616368652e737061726b2e76657273696f6e1205342e332e"
    "3030033a04080350003a1c08024a141889fce12520f69dc3e98d6428c1ea1b30c1ea1b5001581d3a230801121b08c0c4"
    "95e3ca8b8e0610c0c495e3ca8b8e0618c0c495e3ca8b8e06500158113a1008013a080882b7021082b7025001580c4090"
    "4e480058016205322e332e301892052018"
)
"""The end of a file of Spark 4.3 in the zone Europe/Berlin: at timestamp, n timestamp_ntz, d date.

The times at are 1969-12-31 12:00:00.123456 and 2024-07-01 12:00:00.123456 in UTC; n is 2024-07-01 12:00:00.5.
"""


def times_of(path: Path, column: str = "at", **options: str) -> EventTimeRange | None:
    split = FileSplit(path=str(path), length=path.stat().st_size, modified_us=0)
    source = Source.resolve({"path": str(path), "reader": "orc", **options})
    return OrcReader.event_times(split, column, source.options)


def written(folder: Path, *times: dt.datetime | None, kind: pa.DataType, name: str = "at") -> Path:
    path = folder / "a.orc"
    orc.write_table(
        pa.table({"id": pa.array([1] * len(times), pa.int64()), name: pa.array(times, kind)}), path
    )
    return path


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def test_the_times_of_instants_are_those_of_the_rows_in_milliseconds(tmp_path: Path) -> None:
    times = (at("2024-01-01T12:00:00Z"), None, at("2024-01-01T11:00:00.0005Z"))
    path = written(tmp_path, *times, kind=pa.timestamp("us", "UTC"))
    assert times_of(path) == EventTimeRange(NOON_US - 3600 * SECOND_US, NOON_US + 999)
    assert times_of(path, "AT") == times_of(path)


def test_clock_times_are_in_the_zone_of_the_source_which_has_to_be_set(tmp_path: Path) -> None:
    path = written(tmp_path, at("2024-01-01T12:00:00"), kind=pa.timestamp("us"))
    assert times_of(path, timeZone="UTC") == EventTimeRange(NOON_US, NOON_US + 999)
    earlier_us = NOON_US - 9 * 3600 * SECOND_US
    assert times_of(path, timeZone="Asia/Tokyo") == EventTimeRange(earlier_us, earlier_us + 999)
    with pytest.raises(OptionError, match=r"a\.orc: column at .* clock times without a zone") as caught:
        times_of(path)
    assert "set timeZone" in str(caught.value)


def test_days_are_in_the_zone_of_the_source(tmp_path: Path) -> None:
    path = written(tmp_path, at("2024-01-01"), kind=pa.date32())
    begin_us = NOON_US - 21 * 3600 * SECOND_US
    found = times_of(path, timeZone="Asia/Tokyo")
    assert found == EventTimeRange(begin_us, begin_us + 24 * 3600 * SECOND_US - 1)
    cut = {"eventTimeOrder": "true", "eventTimeColumn": "at", "eventTimeBucket": "1h"}
    with pytest.raises(DiscoveryError, match="eventTimeBucket cuts files by single instants"):
        times_of(path, **cut)


def test_what_spark_writes_in_another_zone_is_understood() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    found = times_in_tail("/a", IN_BERLIN, "at", berlin)
    assert found is not None
    # Before 1970 times are up to a second and a millisecond too late or too early.
    earliest, latest = (us_of("1969-12-31T12:00:00.123456Z"), us_of("2024-07-01T12:00:00.123456Z"))
    assert 0 <= earliest - found.earliest_us <= 1.002 * SECOND_US
    assert 0 <= found.latest_us - latest < 1000
    half_past_us = us_of("2024-07-01T12:00:00.5Z")
    assert times_in_tail("/a", IN_BERLIN, "n", berlin) == EventTimeRange(half_past_us, half_past_us)
    assert times_in_tail("/a", IN_BERLIN, "d", berlin) == EventTimeRange(
        us_of("2024-06-30T22:00:00Z"), us_of("2024-07-01T22:00:00Z") - 1
    )


def us_of(text: str) -> int:
    return (at(text) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


@pytest.mark.parametrize("times", [(), (None, None)])
def test_a_file_without_times_has_none(tmp_path: Path, times: tuple[Any, ...]) -> None:
    path = written(tmp_path, *times, kind=pa.timestamp("us", "UTC"))
    assert times_of(path) is None


def test_a_column_without_times_and_a_missing_one_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, at("2024-01-01T12:00:00Z"), kind=pa.timestamp("us", "UTC"))
    with pytest.raises(DiscoveryError, match=r"a\.orc has no column when .*its columns are .'id', 'at'"):
        times_of(path, "when")
    with pytest.raises(DiscoveryError, match=r"a\.orc: column id .* has no times"):
        times_of(path, "id")


def test_a_damaged_file_is_left_to_its_task(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    path.write_bytes(b"ORC, but not for long")
    with pytest.raises(SplitReadError):
        times_of(path)


def test_old_statistics_in_the_zone_of_their_writer_are_not_taken_for_clock_times() -> None:
    # The fields minimum and maximum, in place of minimumUtc and maximumUtc.
    old = IN_BERLIN.replace(b"J\x14\x18\x89\xfc\xe1% \xf6", b"J\x14\x08\x89\xfc\xe1%\x10\xf6")
    with pytest.raises(DiscoveryError, match="/a has no statistics of column at"):
        times_in_tail("/a", old, "at", dt.UTC)
