"""Positions of partitions are edited, and the query continues there."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flip27_source import edits
from flip27_source.cli.main import main
from flip27_source.enumerator import BoundedRange, Budget
from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerator_mixins import NamedPosition
from flip27_source.enumerators.kafka.split import AT_TIMESTAMP, KafkaSplit
from flip27_source.errors import DataLossError, EditError
from flip27_source.snapshots.locations import find_lineages
from flip27_source.source import Source
from flip27_source.testing import MicroBatchEngine
from flip27_source.testing.enumerator_run import EnumeratorRun
from tests.enumerators.kafka.reading import (
    ReaderOfDamagedLogs,
    continued,
    damaged_records,
    offsets_of,
    options_of,
    read,
    stream,
    values_of,
)
from tests.kafka_server import KafkaBroker, Record
from tests.snapshots.spark_logs import view_rows

HOUR_MS = 3_600_000


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    """A topic with five records, an hour apart, starting in 1970."""
    return kafka.filled_topic([Record(value=b"", timestamp_ms=hour * HOUR_MS) for hour in range(1, 6)])


@pytest.fixture
def engine(kafka: KafkaBroker, topic: str, tmp_path: Path) -> MicroBatchEngine:
    """A query that has read these records."""
    return read(kafka, topic, stateLocation=tmp_path)


def set_position(engine: MicroBatchEngine, split_id: str, **position: object) -> edits.EditPlan:
    """Plan the edit, submit it, and let the query continue."""
    state = engine.source.options["stateLocation"]
    plan = edits.plan(
        "set-position", state=state, why="test", splits=[split_id], position=NamedPosition(**position)
    )
    edits.submit(plan)
    continued(engine)
    return plan


def test_a_partition_continues_at_an_offset(topic: str, engine: MicroBatchEngine) -> None:
    plan = set_position(engine, f"{topic}/0", offset=2)
    assert offsets_of(engine.rows) == {f"{topic}/0": [0, 1, 2, 3, 4, 2, 3, 4]}
    assert plan.changes[0].then.endswith("rows read again: 3")


def test_a_partition_without_a_record_as_young_as_the_time_continues_at_its_end(
    kafka: KafkaBroker, topic: str, engine: MicroBatchEngine
) -> None:
    set_position(engine, f"{topic}/0", timestamp_ms=9 * HOUR_MS)
    kafka.produce(topic, [Record(value=b"", timestamp_ms=6 * HOUR_MS)])
    continued(engine)
    assert offsets_of(engine.rows) == {f"{topic}/0": [0, 1, 2, 3, 4, 5]}


def test_a_run_that_ends_by_itself_polls_again_for_the_offset_of_a_time(
    kafka: KafkaBroker, topic: str
) -> None:
    source = Source.resolve(options_of(kafka, topic))
    run = EnumeratorRun(source, boundedness=Boundedness.BOUNDED)
    run.discover()
    edited = KafkaSplit(split_id=f"{topic}/0", next=AT_TIMESTAMP, at_timestamp_ms=4 * HOUR_MS)
    assert not run.enumerator.readable([edited])
    run.discover()
    found = run.enumerator.bound_split(edited, Budget())
    run.enumerator.close()
    assert (found.read.next, found.read.end) == (3, 5)


def test_a_partition_that_shrinks_after_the_offset_of_a_time_was_found_is_a_loss(
    kafka: KafkaBroker, topic: str
) -> None:
    run = EnumeratorRun(Source.resolve(options_of(kafka, topic)))
    run.discover()
    edited = KafkaSplit(split_id=f"{topic}/0", next=AT_TIMESTAMP, at_timestamp_ms=4 * HOUR_MS)
    assert not run.enumerator.readable([edited])
    run.discover()
    kafka.recreate_topic(topic, [b"new"])
    run.discover()
    with pytest.raises(DataLossError, match="the partition ends at offset 1, and offset 3 was to be read"):
        run.enumerator.bound_split(edited, Budget())
    run.enumerator.close()


def test_a_partition_continues_at_its_beginning(
    kafka: KafkaBroker, topic: str, engine: MicroBatchEngine
) -> None:
    kafka.delete_records(topic, {0: 3})
    set_position(engine, f"{topic}/0", word="earliest")
    assert offsets_of(engine.rows) == {f"{topic}/0": [0, 1, 2, 3, 4, 3, 4]}


@pytest.mark.parametrize("limit", [{"maxOffsetsPerTrigger": 100}, {"minOffsetsPerTrigger": 9}], ids=str)
def test_latest_becomes_a_fixed_offset_in_the_first_batch_after_the_edit(
    kafka: KafkaBroker, topic: str, tmp_path: Path, limit: dict[str, int]
) -> None:
    """Also while batches wait for more records."""
    engine = read(kafka, topic, stateLocation=tmp_path, **limit)
    engine.stop()
    kafka.produce(topic, [b"skipped"])
    set_position(engine, f"{topic}/0", word="latest")
    kafka.produce(topic, [b"read"])
    continued(engine)
    assert offsets_of(engine.rows) == {f"{topic}/0": [0, 1, 2, 3, 4, 6]}


def one_batch(engine: MicroBatchEngine) -> None:
    """Restart the query, and run one batch, as with ``trigger(once=True)``."""
    engine.restart()
    engine.run_batch()
    engine.stop()


@pytest.mark.parametrize("available_now", [False, True])
@pytest.mark.parametrize("others", [0, 1], ids=["alone", "with another topic"])
def test_a_run_with_one_batch_finds_the_position_of_an_edit(
    kafka: KafkaBroker, topic: str, tmp_path: Path, *, available_now: bool, others: int
) -> None:
    topics = [topic, *(kafka.filled_topic([b"other"]) for _ in range(others))]
    engine = read(kafka, ",".join(topics), stateLocation=tmp_path, available_now=available_now)
    engine.stop()
    kafka.produce(topic, [b"skipped"])
    latest = NamedPosition(word="latest")
    edits.submit(
        edits.plan("set-position", state=str(tmp_path), why="test", splits=[f"{topic}/0"], position=latest)
    )
    for name in topics[1:]:
        kafka.produce(name, [b"other"])
    one_batch(engine)
    for name in topics:
        kafka.produce(name, [b"read"])
    one_batch(engine)
    assert offsets_of(engine.rows)[f"{topic}/0"] == [0, 1, 2, 3, 4, 6]


def test_after_a_rewind_to_an_edit_the_records_since_then_are_read_again(
    kafka: KafkaBroker, topic: str, tmp_path: Path, engine: MicroBatchEngine
) -> None:
    engine.stop()
    kafka.produce(topic, [b"skipped"])
    set_position(engine, f"{topic}/0", word="latest")
    kafka.produce(topic, [b"read"])
    continued(engine)
    checkpoints = view_rows("checkpoints", find_lineages(str(tmp_path), {}))
    (edited,) = [row["checkpoint_id"] for row in checkpoints if row["edits"]]
    edits.submit(edits.plan("rewind", state=str(tmp_path), why="test", to_checkpoint=edited))
    kafka.produce(topic, [b"new"])
    continued(engine)
    assert offsets_of(engine.rows) == {f"{topic}/0": [0, 1, 2, 3, 4, 6, 6, 7]}


def test_the_query_continues_after_the_command_that_a_loss_names(
    kafka: KafkaBroker, topic: str, engine: MicroBatchEngine, tmp_path: Path
) -> None:
    kafka.recreate_topic(topic, [b"a", b"b"])
    with pytest.raises(DataLossError, match=f"--state {tmp_path} --split {topic}/0 --to earliest"):
        engine.process_all_available()
    set_position(engine, f"{topic}/0", word="earliest")
    assert offsets_of(engine.rows) == {f"{topic}/0": [0, 1, 2, 3, 4, 0, 1]}


@pytest.mark.parametrize("lost", ["expired", "deleted"])
def test_the_command_that_the_loss_of_one_partition_names_is_that_of_all(
    kafka: KafkaBroker, tmp_path: Path, lost: str
) -> None:
    topic, other = kafka.topic(3), kafka.filled_topic([b"other"])
    for partition in range(3):
        kafka.produce(topic, [b"read"], partition=partition)
    engine = read(kafka, f"{topic},{other}", stateLocation=tmp_path)
    engine.stop()
    if lost == "deleted":
        kafka.delete_topic(topic)
    else:
        for partition in range(3):
            kafka.produce(topic, [b"expired", b"left"], partition=partition)
        kafka.delete_records(topic, dict.fromkeys(range(3), 2))
    engine.restart(available_now=True)
    with pytest.raises(DataLossError) as stopped:
        engine.process_all_available()
    engine.stop()
    (command,) = re.findall(r"flip27 (edit .*? --execute)", str(stopped.value))
    assert main(shlex.split(command)) == 0
    kafka.produce(other, [b"later"])
    engine.restart(available_now=True)
    engine.process_all_available()
    left = {} if lost == "deleted" else {f"{topic}/{number}": [0, 2] for number in range(3)}
    assert offsets_of(engine.rows) == {
        **{f"{topic}/{n}": [0] for n in range(3)},
        **left,
        f"{other}/0": [0, 1],
    }


def test_a_topic_that_is_recreated_after_a_partition_was_moved_to_its_end_is_recognized(
    tansu: KafkaBroker, tmp_path: Path
) -> None:
    topic = tansu.filled_topic([b"a", b"b"])
    engine = read(tansu, topic, stateLocation=tmp_path)
    engine.stop()
    tansu.produce(topic, [b"skipped"])
    set_position(engine, f"{topic}/0", offset=3)
    continued(engine)
    tansu.recreate_topic(topic, [b"new"] * 5)
    with pytest.raises(DataLossError, match="was deleted and recreated"):
        continued(engine)


def test_an_offset_beyond_the_end_is_the_end_with_report(tansu: KafkaBroker, tmp_path: Path) -> None:
    topic = tansu.filled_topic([b"a", b"b", b"c"])
    engine = read(tansu, topic, stateLocation=tmp_path, onDataLoss="report")
    set_position(engine, f"{topic}/0", offset=8)
    tansu.produce(topic, [b"later"])
    continued(engine)
    assert offsets_of(engine.rows) == {f"{topic}/0": [0, 1, 2, 3]}


def test_an_edit_to_an_offset_beyond_the_end_is_refused_and_the_query_continues_where_it_was(
    tansu: KafkaBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = tansu.filled_topic([b"a", b"b", b"c"])
    engine = read(tansu, topic, stateLocation=tmp_path)
    set_position(engine, f"{topic}/0", offset=8)
    assert "refused: the query cannot continue from the edited state" in caplog.text
    assert "an edit has set an offset beyond its end" in caplog.text
    tansu.produce(topic, [b"later"])
    continued(engine)
    assert offsets_of(engine.rows) == {f"{topic}/0": [0, 1, 2, 3]}


def test_an_offset_of_a_topic_that_was_recreated_is_not_one_of_the_new_topic(
    tansu: KafkaBroker, tmp_path: Path
) -> None:
    topic = tansu.filled_topic([b"a", b"b", b"c"])
    engine = read(tansu, topic, stateLocation=tmp_path)
    engine.stop()
    tansu.recreate_topic(topic, [b"d", b"e", b"f", b"g"])
    with pytest.raises(DataLossError, match=r"was deleted and recreated(?s:.*)--to earliest"):
        set_position(engine, f"{topic}/0", offset=2)
    set_position(engine, f"{topic}/0", word="earliest")
    assert values_of(engine.rows) == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]


EDITED = [
    ({"word": "latest"}, "latest"),
    ({"word": "earliest"}, "earliest"),
    ({"timestamp_ms": 5}, "timestamp 5"),
]


def edited_before_its_topic_was_recreated(
    broker: KafkaBroker, folder: Path, position: dict[str, Any], **more: Any
) -> MicroBatchEngine:
    """Return a stopped query with a waiting edit; its topic, recreated since, has two records."""
    topic = broker.filled_topic([b"old"])
    engine = read(broker, topic, stateLocation=folder, **more)
    engine.stop()
    named = NamedPosition(**position)
    edits.submit(
        edits.plan("set-position", state=str(folder), why="test", splits=[f"{topic}/0"], position=named)
    )
    broker.recreate_topic(topic, [b"new", b"newer"])
    return engine


@pytest.mark.parametrize(("position", "named"), EDITED, ids=["latest", "earliest", "time"])
def test_a_topic_that_is_recreated_while_an_edit_waits_is_a_loss_and_is_read_from_there(
    tansu: KafkaBroker, tmp_path: Path, position: dict[str, Any], named: str
) -> None:
    engine = edited_before_its_topic_was_recreated(tansu, tmp_path, position, onDataLoss="report")
    continued(engine)
    (loss,) = view_rows("losses", find_lineages(str(tmp_path), {}))
    assert "was deleted and recreated" in loss["what"]
    assert loss["what"].endswith(f"the records of the old topic from {named} on are lost")
    assert values_of(engine.rows) == [b"old", b"new", b"newer"]


@pytest.mark.parametrize(("position", "named"), EDITED, ids=["latest", "earliest", "time"])
def test_an_edit_that_waits_hides_no_recreated_topic_until_the_command_of_the_error(
    tansu: KafkaBroker, tmp_path: Path, position: dict[str, Any], named: str
) -> None:
    engine = edited_before_its_topic_was_recreated(tansu, tmp_path, position)
    with pytest.raises(DataLossError, match="was deleted and recreated"):
        continued(engine)
    with pytest.raises(DataLossError, match=r"was deleted and recreated(?s:.*)--to earliest") as stopped:
        continued(engine)
    (command,) = re.findall(r"flip27 (edit .*? --execute)", str(stopped.value))
    assert main(shlex.split(command)) == 0
    continued(engine)
    assert values_of(engine.rows) == [b"old", b"new", b"newer"]


def test_the_loss_of_a_recreated_topic_names_all_partitions_though_a_batch_has_few_offsets(
    tansu: KafkaBroker, tmp_path: Path
) -> None:
    topic = tansu.filled_topic([b"a"], partitions=3)
    engine = read(tansu, topic, stateLocation=tmp_path, maxOffsetsPerTrigger=1)
    engine.stop()
    tansu.recreate_topic(topic, [b"b"], partitions=3)
    with pytest.raises(DataLossError, match="was deleted and recreated") as stopped:
        continued(engine)
    (command,) = re.findall(r"flip27 (edit .*? --execute)", str(stopped.value))
    assert main(shlex.split(command)) == 0
    continued(engine)
    assert values_of(engine.rows) == [b"a", b"a", b"a", b"b"]


def test_a_partition_that_is_skipped_is_not_read_again(
    kafka: KafkaBroker, topic: str, engine: MicroBatchEngine, tmp_path: Path
) -> None:
    edits.submit(edits.plan("skip", state=str(tmp_path), why="test", splits=[f"{topic}/0"]))
    kafka.produce(topic, [b"later"])
    continued(engine)
    assert offsets_of(engine.rows) == {f"{topic}/0": [0, 1, 2, 3, 4]}


@pytest.mark.parametrize(
    "position",
    [{"word": "newest"}, {"offset": -1}, {"timestamp_ms": -1}, {"offset": 2**63}, {"timestamp_ms": 2**64}],
)
def test_an_invalid_position_is_refused(
    topic: str, engine: MicroBatchEngine, position: dict[str, Any]
) -> None:
    (named,) = position.values()
    with pytest.raises(EditError, match=f"{named!r} is not a(?s:.*) in a partition"):
        set_position(engine, f"{topic}/0", **position)


def test_a_position_that_no_partition_can_have_is_refused(engine: MicroBatchEngine, topic: str) -> None:
    state = engine.source.options["stateLocation"]
    with pytest.raises(EditError, match="-4 is not an offset"):
        edits.plan("set-position", state=state, why="test", splits=[f"{topic}/0"], position={"next": -4})


def test_a_rewind_reads_later_batches_again(kafka: KafkaBroker, topic: str, tmp_path: Path) -> None:
    engine = read(kafka, topic, stateLocation=tmp_path, maxOffsetsPerTrigger=2)
    first = min(int(batch.end["checkpoint"]) for batch in engine.batches if batch.rows)
    edits.submit(edits.plan("rewind", state=str(tmp_path), why="test", to_checkpoint=first))
    continued(engine)
    assert offsets_of(engine.rows) == {f"{topic}/0": [0, 1, 2, 3, 4, 2, 3, 4]}


@pytest.mark.parametrize(
    ("words", "read_again"),
    [
        (("--to-offset", "2"), [2, 3, 4]),
        (("--to-timestamp", str(4 * HOUR_MS)), [3, 4]),
        (("--to-timestamp", "1970-01-01T05:00:00Z"), [4]),
        (("--to", "earliest"), [0, 1, 2, 3, 4]),
    ],
)
def test_the_command_moves_a_partition(
    topic: str, engine: MicroBatchEngine, tmp_path: Path, words: tuple[str, str], read_again: list[int]
) -> None:
    named = ("--state", str(tmp_path), "--split", f"{topic}/0", *words, "--why", "test")
    assert main(["edit", "set-position", *named]) == 0
    continued(engine)
    assert offsets_of(engine.rows) == {f"{topic}/0": [0, 1, 2, 3, 4]}, "a dry run changes nothing"
    assert main(["edit", "set-position", *named, "--execute"]) == 0
    continued(engine)
    assert offsets_of(engine.rows) == {f"{topic}/0": [0, 1, 2, 3, 4, *read_again]}


def test_two_positions_at_once_are_refused(
    topic: str, engine: MicroBatchEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.stop()
    named = ("--state", str(tmp_path), "--split", f"{topic}/0", "--why", "test")
    code = main(["edit", "set-position", *named, "--to-offset", "2", "--to", "earliest"])
    assert code != 0
    assert "--to" in capsys.readouterr().err


def unreadable(broker: KafkaBroker, topic: str, folder: Path) -> MicroBatchEngine:
    """Return a query that has set a range aside because its records were damaged, and has continued."""
    broker.produce(topic, [b"a", b"b", b"c"])
    more = {"onSplitError": "quarantine", "maxSplitAttempts": 1, "reader": ReaderOfDamagedLogs}
    engine = stream(broker, topic, stateLocation=folder, **more)
    assert engine.trigger()
    with damaged_records():
        engine.run_batch()
    broker.produce(topic, [b"d"])
    engine.process_all_available()
    assert offsets_of(engine.rows) == {f"{topic}/0": [3]}
    return engine


def test_a_range_that_could_not_be_read_is_retried_while_its_partition_continues(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.topic()
    engine = unreadable(kafka, topic, tmp_path)
    words = ("--state", str(tmp_path), "--split", f"{topic}/0@0-2", "--why", "test", "--execute")
    assert main(["edit", "quarantine", "retry", *words]) == 0
    engine.restart()
    kafka.produce(topic, [b"e"])
    engine.process_all_available()
    assert sorted(offsets_of(engine.rows)[f"{topic}/0"]) == [0, 1, 2, 3, 4]
    assert "quarantinedSplits" not in engine.holder.report()
    engine.stop()


def test_each_part_of_a_range_that_could_not_be_read_is_retried(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.filled_topic([b"0", b"1", b"2", b"3"])
    more = {"onSplitError": "quarantine", "maxSplitAttempts": 1, "reader": ReaderOfDamagedLogs}
    engine = stream(
        kafka, topic, stateLocation=tmp_path, minPartitions=3, maxRecordsPerPartition=2, parallelism=1, **more
    )
    assert engine.trigger()
    assert len(engine.partitions()) == 3, "one of the tasks has two parts"
    with damaged_records():
        engine.run_batch()
    engine.process_all_available()
    assert engine.rows == []
    ranges = [f"{topic}/0@{offset}-{offset}" for offset in range(4)]
    edits.submit(edits.plan("quarantine retry", state=str(tmp_path), why="test", splits=ranges))
    continued(engine)
    assert sorted(offsets_of(engine.rows)[f"{topic}/0"]) == [0, 1, 2, 3]
    engine.stop()


def test_a_range_that_expired_before_its_retry_is_quarantined_with_the_loss(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.topic()
    engine = unreadable(kafka, topic, tmp_path)
    kafka.delete_records(topic, {0: 3})
    edits.submit(edits.plan("quarantine retry", state=str(tmp_path), why="test", splits=[f"{topic}/0@0-2"]))
    continued(engine)
    assert offsets_of(engine.rows) == {f"{topic}/0": [3]}
    plan = edits.plan("quarantine drop", state=str(tmp_path), why="test", glob="*")
    (change,) = plan.changes
    assert change.split_id == f"{topic}/0@0-2"
    assert "offsets 0 to 2 are gone" in change.now
    engine.stop()


def test_a_range_of_a_topic_that_was_recreated_is_not_read(tansu: KafkaBroker) -> None:
    topic = tansu.filled_topic([b"a", b"b", b"c"])
    run = EnumeratorRun(Source.resolve(options_of(tansu, topic)))
    older = KafkaSplit(split_id=f"{topic}/0@0-2", next=0, end=3, topic_id="of-the-older-topic")
    assert run.enumerator.bound_split(older, Budget()) is None, "nothing is known of the topic yet"
    run.discover()
    with pytest.raises(DataLossError, match=f"its offsets 0 to 2 are gone(?s:.*)skip .*{topic}/0@0-2"):
        run.enumerator.bound_split(older, Budget())
    same = replace(older, topic_id=None)
    assert run.enumerator.bound_split(same, Budget(rows=2)) is None
    assert run.enumerator.bound_split(same, Budget(rows=3)) == BoundedRange(read=same, rest=None)
    run.enumerator.close()
