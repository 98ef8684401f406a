"""The benchmarks at very small sizes: each kind of case runs, counts its rows and is reported.

Their speed is not tested."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks import tuned
from benchmarks.__main__ import parse
from benchmarks.cases import BY_NAME, CASES, Bench, run_cases
from benchmarks.data import DataCache
from benchmarks.outcomes import Outcome, Rounds, Spread, Target, batch_time, faster
from benchmarks.progress import Progress
from benchmarks.report import Report, machine, now, render, save
from benchmarks.rounds import CpuSeconds, Memory, Round
from benchmarks.sizes import FULL, QUICK, Tiny
from benchmarks.start import Parts, start_outcomes

pytestmark = pytest.mark.slow

SMALL = dataclasses.replace(
    QUICK,
    tiny={name: Tiny(files=20, per_trigger=10, warm_up=2) for name in QUICK.tiny},
    bulk_bytes=400_000,
    file_bytes=200_000,
    files_per_trigger=1,
    one_row_batches=3,
    known_files=300,
    new_files=50,
    known_rounds=2,
    many_known_rounds=2,
    postgres_changes=1_000,
    postgres_rows=1_000,
    postgres_commits=1,
    mysql_changes=1_000,
    mysql_transactions=50,
    kafka_messages=1_000,
    kafka_values=1_000,
    kafka_partitions=20,
    kafka_latencies=2,
    kafka_idle_s=1,
    warm_ups=0,
)


REPEATED = {
    "tiny-often", "tiny-parquet", "native", "json", "csv", "one-json", "parsed-json", "one-row-sockets",
    "known-10x",
}  # fmt: skip
"""Cases that run the same code as other cases, with other sizes; ``make bench-quick`` runs them, too."""

WITH_SERVERS = {"postgres": 5, "mysql": 2, "kafka": 6}
"""Cases that need a server, and how many lines they report; only `make test-long` runs them."""

TRIED = [case for case in CASES if case.name not in REPEATED | set(WITH_SERVERS)]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    """One case of each kind; with one setting for all, two sessions are enough, plus one for each server."""
    data = DataCache(tmp_path_factory.mktemp("data"))
    settings = {name: value for case in TRIED for name, value in case.conf.items()}
    bench = Bench(sizes=SMALL, data=data, conf=tuned.CONF | settings, say=lambda _line: None)
    return list(run_cases(bench, TRIED))


def test_every_case_runs_without_failure(outcomes: list[Outcome]) -> None:
    assert [outcome.failure for outcome in outcomes if outcome.failure] == []
    lines = {"start": 4, "known": 7, "reports": 2}
    assert len(outcomes) == sum(lines.get(case.name, 1) for case in TRIED)


@pytest.mark.long
@pytest.mark.parametrize("name", WITH_SERVERS)
def test_a_case_with_a_server_runs_without_failure(name: str, tmp_path: Path) -> None:
    bench = Bench(sizes=SMALL, data=DataCache(tmp_path), conf=tuned.CONF, say=lambda _line: None)
    outcomes = list(run_cases(bench, [BY_NAME[name]]))
    assert [outcome.failure for outcome in outcomes if outcome.failure] == []
    assert len(outcomes) == WITH_SERVERS[name]


def test_both_sides_read_every_row_of_the_data(outcomes: list[Outcome]) -> None:
    beside_spark = [outcome for outcome in outcomes if outcome.spark_rounds]
    for outcome in beside_spark:
        counted = {one.rows for one in (*outcome.spark_rounds, *outcome.flip27_rounds)}
        assert len(counted) == 1, outcome.case
    names = [case.name for case in TRIED if case.needs_spark]
    first = dict(zip(names, (outcome.flip27_rounds[0] for outcome in beside_spark), strict=True))
    assert {name: first[name].rows for name in ("tiny", "native-tiny", "known-tree", "one-row", "start")} == {
        "tiny": 20, "native-tiny": 20, "known-tree": SMALL.new_files, "one-row": 3, "start": 1,
    }  # fmt: skip
    assert {name: len(one.batch_ms) for name, one in first.items()} == {
        "tiny": 2, "parquet": 2, "native-pruned": 2, "native-tiny": 2, "one-csv": 1, "parsed-csv": 2,
        "known-tree": 1, "one-row": 3, "start": 1,
    }  # fmt: skip


def test_the_state_written_for_new_files_is_counted_in_bytes(outcomes: list[Outcome]) -> None:
    known = next(outcome.known_files for outcome in outcomes if outcome.known_files)
    assert known is not None
    assert len(known.latest_offset_ms) == len(known.bytes_per_new_file) == SMALL.known_rounds
    assert all(wrote > 16 for wrote in known.bytes_per_new_file), "at least a hash for each file"
    assert 100 < known.offset_bytes < 4096


def test_the_report_contains_the_measurements_and_the_machine(
    outcomes: list[Outcome], tmp_path: Path
) -> None:
    report = Report(
        format=1,
        began=now(),
        quick=True,
        tuned=True,
        machine=machine((0.0, 0.0, 0.0)),
        conf={},
        outcomes=outcomes,
    )
    saved: dict[str, Any] = json.loads(save(report, tmp_path / "results").read_bytes())
    assert saved.keys() == {"format", "began", "quick", "tuned", "machine", "conf", "outcomes"}
    assert saved["machine"].keys() >= {"cores", "pyspark", "load_before", "load_after"}
    first = saved["outcomes"][0]
    assert first.keys() >= {"case", "spark", "flip27", "result", "target", "reached", "rounds", "failure"}
    one = first["flip27_rounds"][0]
    assert one.keys() == {
        "rows", "load_ms", "start_ms", "seconds", "batch_ms", "phases_ms", "memory", "cpu",
    }  # fmt: skip
    assert one["phases_ms"]["triggerExecution"] > 0


def test_the_table_names_every_case_and_its_target(outcomes: list[Outcome]) -> None:
    text = printed(outcomes, 220)
    for outcome in outcomes:
        assert outcome.case in text
    assert "≥ 15 x" in text
    assert "failed" not in text


def literal_outcomes() -> list[Outcome]:
    """Outcomes with the longest names and the largest numbers that occur."""
    wide = Spread(123_456.0, 98_765.0, 234_567.0)
    of_spark = {"spark": wide, "flip27": wide, "result": wide, "rounds": (3, 3), "reached": True}
    return [
        Outcome(
            case="100,000 one-row parquet files, 10,000 per trigger", what="seconds",
            target=Target("at least", 1.6), note="1 round(s) of Spark; processor time: 2.00 x",
            spark_memory=Memory(jvm=12_345, coordinator=12_345, worker=12_345), **of_spark,
        ),
        Outcome(
            case="batches of 200 subtasks that report, S3 (moto)", what="ms added by reports",
            target=Target("at most", 1_000, "ms"), failure="no store", **of_spark,
        ),
    ]  # fmt: skip


def printed(outcomes: list[Outcome], width: int) -> str:
    screen = io.StringIO()
    render(Console(file=screen, width=width), outcomes, enforced=True)
    return screen.getvalue()


def test_without_a_terminal_the_tables_fit_80_columns_and_few_lines() -> None:
    text = printed(literal_outcomes(), 80)
    assert max(map(len, text.splitlines())) <= 80
    table = text.partition("case")[2].partition("100,000 one-row parquet files, 10,000 per trigger: ")[0]
    assert len(table.splitlines()) <= 2 + 4 * 2  # the head, and up to four lines for each case
    for number in ("123,456", "≥ 1.6 x", "≤ 1000 ms", "reached", "failed", "12,345"):
        assert number in text
    assert "processor time: 2.00 x" in " ".join(text.split())
    assert "(98,765 to 234,567)" in " ".join(text.split())


def test_a_wide_terminal_shows_everything_in_one_table() -> None:
    assert "123,456 (98,765 to 234,567)" in printed(literal_outcomes(), 220)


def test_progress_shows_the_elapsed_time() -> None:
    screen, clock = io.StringIO(), iter([100.0, 100.0, 3_861.5])
    progress = Progress(Console(file=screen, width=20), lambda: next(clock))
    progress.say("csv: case 6 of 14")
    progress.say("  round 1 of 3, flip27 ...")
    assert screen.getvalue().splitlines() == [
        "0:00:00  csv: case 6 of 14",
        "1:02:41    round 1 of 3, flip27 ...",
    ]


def a_round(*, rows: int = 10, start_ms: float = 400, seconds: float = 1.0, batch_ms: int = 100) -> Round:
    return Round(
        rows=rows, load_ms=30, start_ms=start_ms, seconds=seconds, batch_ms=[batch_ms] * 3, phases_ms={},
        memory=Memory(), cpu=CpuSeconds(),
    )  # fmt: skip


def test_a_side_that_read_a_wrong_number_of_rows_fails_the_case_however_fast_it_was() -> None:
    rounds = Rounds(warm_up=(), spark=(a_round(seconds=9),), flip27=(a_round(rows=9),))
    outcome = faster("case", rounds, Target("at least", 1.3), rows=10)
    assert not outcome.reached
    assert outcome.failure == "the data has 10 rows, but [9, 10] were read"


def test_a_single_round_of_spark_is_compared_with_every_round_of_ours() -> None:
    ours = tuple(a_round(seconds=seconds) for seconds in (1.0, 2.0, 4.0))
    outcome = faster(
        "case", Rounds(warm_up=(), spark=(a_round(seconds=8),), flip27=ours), Target("at least", 4), rows=10
    )
    assert outcome.result is not None
    assert (outcome.result.median, outcome.result.least, outcome.result.most) == (4.0, 2.0, 8.0)
    assert outcome.reached


def test_the_start_of_a_query_is_reported_in_parts_and_judged_as_a_whole() -> None:
    spark = tuple(a_round(start_ms=100) for _ in range(3))
    rounds = Rounds(warm_up=(), spark=spark, flip27=(a_round(start_ms=400), a_round(start_ms=480)))
    parts = Parts(pyspark=0.3, flip27=0.15, first=0.01)
    load, start, batch, whole = start_outcomes(rounds, parts, rows=10)
    assert [one.flip27.median for one in (load, start, batch, whole) if one.flip27] == [30, 440, 100, 470]
    assert start.note == "in the coordinator's process: pyspark 300 ms, flip27 150 ms, first offset 10 ms"
    assert start.result is not None
    assert start.result.median == 4.4
    assert whole.reached


def test_a_batch_time_target_is_a_ceiling() -> None:
    rounds = Rounds(warm_up=(), spark=(a_round(batch_ms=100),), flip27=(a_round(batch_ms=130),))
    assert not batch_time("case", rounds, Target("at most", 1.2), rows=10).reached
    assert batch_time("case", rounds, Target("at most", 1.3), rows=10).reached


def test_existing_data_is_used_again(tmp_path: Path) -> None:
    cache = DataCache(tmp_path)
    made = cache.bulk("csv", total_bytes=100_000, file_bytes=50_000)
    before = {file: file.stat().st_mtime_ns for file in Path(made.folder).iterdir()}
    assert DataCache(tmp_path).bulk("csv", total_bytes=100_000, file_bytes=50_000) == made
    assert {file: file.stat().st_mtime_ns for file in Path(made.folder).iterdir()} == before
    assert made.files == 2


def test_incomplete_data_is_made_again(tmp_path: Path) -> None:
    cache = DataCache(tmp_path)
    made = cache.tiny(3)
    (tmp_path / "tiny-3.json").unlink()
    (Path(made.folder) / "0000001.json").unlink()
    assert cache.tiny(3) == made
    assert len(list(Path(made.folder).iterdir())) == 3


def test_the_full_sizes_are_those_of_the_targets() -> None:
    tiny = {name: (one.files, one.per_trigger) for name, one in FULL.tiny.items()}
    assert tiny == {
        "tiny": (100_000, 10_000),
        "tiny-often": (100_000, 1_000),
        "tiny-parquet": (20_000, 10_000),
    }
    assert (FULL.known_files, FULL.new_files) == (1_000_000, 1_000)
    assert FULL.bulk_bytes // FULL.file_bytes == 16
    assert FULL.rounds >= 5
    bounds = {name: (case.target.bound, case.target.value) for name, case in BY_NAME.items()}
    assert bounds == {
        "tiny": ("at least", 15), "tiny-often": ("at least", 8), "tiny-parquet": ("at least", 8),
        "parquet": ("at least", 1.4), "json": ("at least", 1.6), "csv": ("at least", 2),
        "one-json": ("at least", 1.6), "one-csv": ("at least", 2), "known-tree": ("at least", 5),
        "one-row": ("at most", 1.0), "one-row-sockets": ("at most", 0.75), "start": ("at most", 500),
        "known": ("at most", 100), "known-10x": ("at most", 10), "reports": ("at most", 25),
        "parsed-json": ("at least", 0.4), "parsed-csv": ("at least", 0.6), "postgres": ("at least", 0.5),
        "kafka": ("at least", 0.5), "native": ("at least", 0.95), "native-pruned": ("at least", 0.95),
        "native-tiny": ("at least", 2), "mysql": ("at least", 0.5),
    }  # fmt: skip


def test_a_case_can_be_run_alone() -> None:
    assert parse(["--only", "json", "--only", "csv"]).only == ["json", "csv"]
