"""What counts as new: every file, every version, or files after a cursor; and files that arrive late."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flip27_source.enumerators.files.position import FilesPosition
from flip27_source.errors import CorruptStateError, DiscoveryError, MissingStateError, OptionError
from flip27_source.testing import MicroBatchEngine
from tests.s3_server import S3Bucket

from .file_sources import GivenFiles, Rounds, Run, files_source, rounds_on, write

HOUR = 3600
DAY = 24 * HOUR
EVERY_ROUND = "0 ms"


def test_an_overwritten_file_is_read_once_unless_overwrites_are_allowed(tmp_path: Path) -> None:
    rounds = rounds_on(tmp_path)
    write(tmp_path, "a", data=b"1")
    assert rounds.names() == ["a"]
    write(tmp_path, "a", data=b"22")
    assert rounds.names() == []


@pytest.mark.parametrize("change", ["size", "time"])
def test_an_overwritten_file_is_read_again_counted_and_named(
    tmp_path: Path, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    rounds = rounds_on(tmp_path, allowOverwrites=True)
    write(tmp_path, "a", "b", data=b"1", modified_s=1000)
    assert rounds.names() == ["a", "b"]
    assert rounds.names() == []
    if change == "size":
        write(tmp_path, "a", data=b"22", modified_s=1000)
    else:
        write(tmp_path, "a", data=b"2", modified_s=1001)
    with caplog.at_level(logging.WARNING):
        assert rounds.names() == ["a"]
    assert rounds.gauges["filesOverwritten"] == 1
    assert f"{tmp_path}/a has changed since it was read, and is read again" in caplog.messages
    restarted = rounds.restarted(allowOverwrites=True)
    assert restarted.names() == []
    assert restarted.gauges["filesOverwritten"] == 1


def test_an_object_that_was_overwritten_within_a_second_is_recognized_by_its_etag(
    s3_bucket: S3Bucket,
) -> None:
    run = Run(files_source(f"s3://{s3_bucket.name}/in", allowOverwrites=True, **s3_bucket.options))
    found = []
    for data in (b"one", b"two", b"two"):
        s3_bucket.file_system.pipe_file(f"{s3_bucket.name}/in/a", data)
        found.append(len(run.read()))
    assert found == [1, 1, 0]


def test_two_versions_of_a_file_may_be_waiting_at_the_same_time(tmp_path: Path) -> None:
    """They are two splits with different ids: the ledger refuses two splits with the same id."""
    rounds = rounds_on(tmp_path, allowOverwrites=True)
    write(tmp_path, "a", data=b"1")
    rounds.works.run(rounds.coordinator)
    write(tmp_path, "a", data=b"22")
    assert rounds.names() == ["a", "a"]


def test_overwrites_are_detected_from_the_restart_that_allows_them(tmp_path: Path) -> None:
    """Files that were read before that restart are not read again because of the option."""
    rounds = rounds_on(tmp_path)
    write(tmp_path, "a", "b")
    assert rounds.names() == ["a", "b"]
    rounds = rounds.restarted(allowOverwrites=True)
    write(tmp_path, "c")
    assert rounds.names() == ["c"]
    write(tmp_path, "a", data=b"another")
    assert rounds.names() == ["a"]
    rounds = rounds.restarted(allowOverwrites=False)
    write(tmp_path, "b", data=b"another")
    write(tmp_path, "d")
    assert rounds.names() == ["d"]
    rounds = rounds.restarted(allowOverwrites=True)
    assert rounds.names() == []
    write(tmp_path, "d", data=b"another")
    assert rounds.names() == ["d"]


def test_a_name_cursor_reads_files_whose_names_sort_after_the_last_one(tmp_path: Path) -> None:
    rounds = rounds_on(tmp_path, seenFiles="nameCursor")
    assert rounds.names() == []
    write(tmp_path, "2026-01", "2026-02")
    assert rounds.names() == ["2026-01", "2026-02"]
    write(tmp_path, "2026-03")
    assert rounds.names() == ["2026-03"]
    assert rounds.names() == []
    rounds = rounds.restarted()
    write(tmp_path, "2026-04")
    assert rounds.names() == ["2026-04"]


def test_the_state_of_a_name_cursor_does_not_grow_with_the_files(tmp_path: Path) -> None:
    rounds = rounds_on(tmp_path, seenFiles="nameCursor", backfillInterval="off")
    for number in range(30):
        write(tmp_path, f"{number:03}")
        assert rounds.names() == [f"{number:03}"]
    position = rounds.position
    assert (position.seen, position.window, position.after) == ((), (), f"{tmp_path}/029")
    assert position.files == 30


def late_by_name(folder: Path, **options: Any) -> Rounds:
    """Return a query that has read a and c, while b arrives late."""
    rounds = rounds_on(folder, seenFiles="nameCursor", backfillInterval=EVERY_ROUND, **options)
    write(folder, "a", "c")
    assert rounds.names() == ["a", "c"]
    write(folder, "b")
    return rounds


def late_by_time(folder: Path, **options: Any) -> Rounds:
    """Return a query that has read a and c, after which b is moved in with a much older time."""
    rounds = rounds_on(folder, seenFiles="modifiedCursor", allowedLateness="1 hour", **options)
    write(folder, "a", modified_s=10 * DAY)
    write(folder, "c", modified_s=20 * DAY)
    assert rounds.names() == ["a", "c"]
    write(folder, "b", modified_s=15 * DAY)
    return rounds


LATE = pytest.mark.parametrize("late", [late_by_name, late_by_time])


@LATE
def test_a_late_file_stops_the_query_by_default_and_again_after_a_restart(tmp_path: Path, late: Any) -> None:
    rounds = late(tmp_path)
    for _ in range(2):
        with pytest.raises(DiscoveryError, match="/b came late") as caught:
            rounds.names()
        assert "set onLateFile=read" in str(caught.value)


@LATE
def test_a_late_file_is_reported_once_by_count_name_and_log(
    tmp_path: Path, late: Any, caplog: pytest.LogCaptureFixture
) -> None:
    rounds = late(tmp_path, onLateFile="report")
    with caplog.at_level(logging.WARNING):
        assert [rounds.names() for _ in range(3)] == [[], [], []]
    assert rounds.gauges["filesLate"] == 1
    strategy = rounds.position.strategy
    assert [message for message in caplog.messages if "came late" in message] == [
        f"{tmp_path}/b came late for seenFiles={strategy} and is not read"
    ]
    write(tmp_path, "d")
    assert rounds.names() == ["d"]
    position = rounds.position
    assert (position.late, position.late_names) == (1, (f"{tmp_path}/b",))


@LATE
def test_a_late_file_is_read_once_if_the_option_says_so(tmp_path: Path, late: Any) -> None:
    rounds = late(tmp_path, onLateFile="read")
    assert [rounds.names() for _ in range(3)] == [["b"], [], []]
    assert rounds.gauges["filesLate"] == 1
    rounds = rounds.restarted()
    assert rounds.names() == []
    write(tmp_path, "d")
    assert rounds.names() == ["d"]


def test_a_late_file_of_a_name_cursor_is_found_at_the_next_backfill(tmp_path: Path) -> None:
    rounds = rounds_on(tmp_path, seenFiles="nameCursor", onLateFile="read")
    write(tmp_path, "a", "c")
    assert rounds.names() == ["a", "c"]
    write(tmp_path, "b", "d")
    assert rounds.names() == ["d"]
    rounds = rounds.restarted(seenFiles="nameCursor", onLateFile="read", backfillInterval=EVERY_ROUND)
    assert rounds.names() == ["b"]
    assert rounds.names() == []


def test_files_that_were_read_without_backfills_are_not_late_when_backfills_begin(tmp_path: Path) -> None:
    options = {"seenFiles": "nameCursor", "onLateFile": "read"}
    rounds = rounds_on(tmp_path, **options)
    for interval in ("off", EVERY_ROUND, "off", EVERY_ROUND):
        rounds = rounds.restarted(**options, backfillInterval=interval)
        name = f"{len(list(tmp_path.iterdir()))}"
        write(tmp_path, name)
        assert [rounds.names() for _ in range(2)] == [[name], []]
    write(tmp_path, "00")
    assert rounds.names() == ["00"]


def test_a_modified_cursor_reads_each_file_once_and_remembers_only_files_in_the_window(
    tmp_path: Path,
) -> None:
    """For 200 hours, a file arrives every half hour, with restarts in between; the window is two hours."""
    objects = GivenFiles()  # as in an object store, a file appears at its modification time
    rounds = rounds_on(tmp_path, seenFiles="modifiedCursor", allowedLateness="2 hours")
    largest = 0
    for half_hour in range(400):
        objects.put(f"s3://bucket/{half_hour}", modified_s=10 * DAY + half_hour * HOUR // 2)
        rounds.list_with(objects)
        assert rounds.names() == [f"{half_hour}"]
        position = rounds.position
        largest = max(largest, sum(run.hashes.size for run in position.window))
        if half_hour % 50 == 49:
            rounds = rounds.restarted()
            rounds.list_with(objects)
            assert rounds.names() == []
    assert rounds.gauges.get("filesLate", 0) == 0
    assert largest <= 4 * 5 * 16


def test_files_within_the_allowed_lateness_are_not_late(tmp_path: Path) -> None:
    rounds = rounds_on(tmp_path, seenFiles="modifiedCursor", allowedLateness="1 hour")
    write(tmp_path, "a", modified_s=10 * DAY)
    assert rounds.names() == ["a"]
    write(tmp_path, "b", modified_s=10 * DAY - HOUR)
    assert rounds.names() == ["b"]
    write(tmp_path, "c", modified_s=10 * DAY - HOUR - 1)
    with pytest.raises(DiscoveryError, match="/c came late"):
        rounds.names()


STRATEGIES: dict[str, dict[str, str]] = {
    "exact": {"seenFiles": "exact"},
    "overwrites": {"seenFiles": "exact", "allowOverwrites": "true"},
    "name": {"seenFiles": "nameCursor"},
    "modified": {"seenFiles": "modifiedCursor", "allowedLateness": "1 hour"},
}


@pytest.mark.parametrize("new", STRATEGIES)
@pytest.mark.parametrize("old", STRATEGIES)
def test_a_restart_with_another_strategy_reads_new_files_and_no_file_again(
    tmp_path: Path, old: str, new: str
) -> None:
    rounds = rounds_on(tmp_path, **STRATEGIES[old])
    write(tmp_path, "a", modified_s=1000)
    write(tmp_path, "b", modified_s=100_000)
    assert rounds.names() == ["a", "b"]
    write(tmp_path, "c", modified_s=100_001)
    rounds = rounds.restarted(**STRATEGIES[new])
    assert rounds.names() == ["c"]
    assert rounds.names() == []
    write(tmp_path, "d", modified_s=100_002)
    assert rounds.names() == ["d"]
    rounds = rounds.restarted(**STRATEGIES[old])
    write(tmp_path, "e", modified_s=100_003)
    assert rounds.names() == ["e"]
    assert rounds.names() == []


@pytest.mark.parametrize("has_new_file", [False, True])
@pytest.mark.parametrize("old", ["exact", "name", "modified"])
def test_overwrites_are_detected_from_the_run_that_allows_them_even_if_it_finds_no_file(
    tmp_path: Path, old: str, has_new_file: bool
) -> None:
    """The versions of that run are stored at once; later overwrites are compared with them."""
    write(tmp_path, "a", modified_s=1000)
    run = Run(files_source(tmp_path, **STRATEGIES[old]))
    assert run.names() == ["a"]
    if has_new_file:
        write(tmp_path, "b", modified_s=1001)
    run.source = files_source(tmp_path, allowOverwrites=True)
    assert [split.version for split in run.read()] == ["1001000000-4"] * has_new_file
    write(tmp_path, "a", data=b"another", modified_s=1000)
    assert [run.names() for _ in range(2)] == [["a"], []]
    write(tmp_path, "a", data=b"a third", modified_s=2000)
    assert run.names() == ["a"]


def test_versions_are_stored_before_a_continuous_query_reads_anything(tmp_path: Path) -> None:
    write(tmp_path, "a")
    rounds = rounds_on(tmp_path)
    assert rounds.names() == ["a"]
    rounds = rounds.restarted(allowOverwrites=True)
    assert rounds.names() == []
    write(tmp_path, "a", data=b"another")
    rounds = rounds.restarted()
    assert rounds.names() == ["a"]


@LATE
def test_a_late_file_is_read_after_a_switch_to_exact_as_the_error_says(tmp_path: Path, late: Any) -> None:
    rounds = late(tmp_path)
    with pytest.raises(DiscoveryError, match="/b came late"):
        rounds.names()
    rounds = rounds.restarted(seenFiles="exact", backfillInterval=EVERY_ROUND)
    assert [rounds.names() for _ in range(2)] == [["b"], []]


@pytest.mark.parametrize("seen", ["nameCursor", "modifiedCursor"])
@pytest.mark.parametrize(
    ("name", "value", "older"),
    [("path", "*", "other"), ("recursiveFileLookup", "true", "below"), ("pathGlobFilter", "*", "a.log")],
)
def test_an_option_that_brings_older_files_needs_another_strategy_first(
    tmp_path: Path, seen: str, name: str, value: str, older: str
) -> None:
    tmp_path = tmp_path / "not UTF-8: \udcff"
    first = {"path": f"{tmp_path}/in/", "pathGlobFilter": "[!a]*"}
    then = {**first, name: str(tmp_path / value) if name == "path" else value}
    write(tmp_path, "in/a.log", "in/a/below", "before/other", modified_s=1000)
    write(tmp_path, "in/z", modified_s=2000)
    rounds = rounds_on(**first, seenFiles=seen)
    assert rounds.names() == ["z"]
    for strategy in (seen, "exact"):
        with pytest.raises(OptionError, match=rf"(?s)option {name} was .*after one batch with"):
            Rounds(files_source(**then, seenFiles=strategy), rounds.restored)
    for same in ({**first, "path": f"{tmp_path}/./in", "seenFiles": seen}, {**first, "seenFiles": "exact"}):
        rounds = Rounds(files_source(**same), rounds.restored)
        assert rounds.names() == []
    assert Rounds(files_source(**then, seenFiles="exact"), rounds.restored).names() == [older]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"seenFiles": "nameCursor", "allowOverwrites": "true"}, "does not record single files"),
        ({"seenFiles": "modifiedCursor", "fileNameOnly": "true"}, "does not record single files"),
        ({"fileNameOnly": "true", "allowOverwrites": "true"}, "count as new versions of each other"),
        ({"seenFiles": "nameCursor", "paths": "/tmp, /var"}, "names do not grow in one order"),
        ({"seenFiles": "all"}, "one of exact, nameCursor, modifiedCursor is expected"),
        ({"backfillInterval": "sometimes"}, "a duration is expected"),
    ],
    ids=str,
)
def test_incompatible_options_are_refused(tmp_path: Path, options: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError) as caught:
        rounds_on(tmp_path, **options)
    assert told in str(caught.value)


def test_a_position_of_an_earlier_version_is_read() -> None:
    """It contains only what was seen and the number of files."""
    position = msgspec.convert({"seen": [], "files": 0}, FilesPosition)
    assert (position.strategy, position.versions) == ("exact", None)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "altered": lambda path: path.write_bytes(path.read_bytes()[:8] + b"x" * 40),
    "empty": lambda path: path.write_bytes(b""),
    "gone": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_state_of_known_files_is_reported_at_once_with_one_remedy(
    tmp_path: Path, damage: str
) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in", *(f"{number:04}" for number in range(200)))
    source = {
        "path": str(tmp_path / "in"), "enumerator": "files", "reader": "binary",
        "stateLocation": str(tmp_path / "state"),
    }  # fmt: skip
    engine = MicroBatchEngine(source)
    engine.run_batch()
    (segment,) = (tmp_path / "state").glob("*/segments/*.seen.bin")
    DAMAGE[damage](segment)
    engine.restart()
    with pytest.raises(MissingStateError if damage == "gone" else CorruptStateError) as caught:
        engine.process_all_available()
    assert segment.name in str(caught.value)
    assert str(caught.value).count("What to do") == 1
