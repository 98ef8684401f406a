"""The cases, in the order of the table, with the target of each."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tests.s3_server import new_bucket, s3_endpoint

from . import known_tree
from .data import DataCache, Dataset
from .kafka_cases import kafka_outcomes
from .mysql import mysql_outcomes
from .outcomes import (
    Outcome,
    Rounds,
    Target,
    batch_time,
    batches_faster,
    failed,
    faster,
    known_files_outcomes,
    many_known_files_outcomes,
    report_cost_outcome,
)
from .postgres_cases import HALF, postgres_outcomes
from .report_cost import SUBTASKS
from .report_cost import measure as measure_report_cost
from .rounds import KnownFilesSpec, Round, RoundSpec
from .sessions import BenchmarkError, Pair, QueryProcess, measure_known_files, open_pair
from .sizes import Sizes
from .start import HALF_A_SECOND, measure_parts, start_outcomes

UNIX_SOCKETS = {"spark.python.unix.domain.socket.enabled": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all cases of a run have in common.

    Attributes:
        conf: Spark settings for both sides, in addition to each case's own.
        say: prints a line of progress.
    """

    sizes: Sizes
    data: DataCache
    conf: Mapping[str, str]
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case.

    Attributes:
        name: as ``--only`` takes it.
        conf: Spark settings that it needs.
        run: measures the case; it gets a pair of sessions if the case needs Spark.
    """

    name: str
    target: Target
    run: Callable[[Bench, Pair | None], list[Outcome]]
    conf: Mapping[str, str] = field(default_factory=dict)
    needs_spark: bool = True


def run_cases(bench: Bench, cases: Sequence[Case]) -> Iterator[Outcome]:
    """Run the cases one after another. A case that fails yields an outcome with its error."""
    with contextlib.ExitStack() as stack:
        shared: dict[tuple[tuple[str, str], ...], Pair] = {}

        def pair_for(case: Case, own: contextlib.ExitStack) -> Pair | None:
            if not case.needs_spark:
                return None
            conf = {**bench.conf, **case.conf}
            if not bench.sizes.shares_sessions:
                return own.enter_context(open_pair(conf))
            key = tuple(sorted(conf.items()))
            if key not in shared:
                shared[key] = stack.enter_context(open_pair(conf))
            return shared[key]

        for number, case in enumerate(cases, start=1):
            bench.say(f"{case.name}: case {number} of {len(cases)}")
            try:
                with contextlib.ExitStack() as own:
                    yield from case.run(bench, pair_for(case, own))
            except BenchmarkError as error:
                yield failed(case.name, case.target, str(error))


def _spec(data: Dataset, files_per_trigger: int, batches: int | None = None) -> RoundSpec:
    return RoundSpec(
        folder=data.folder,
        reader=data.reader,
        schema=data.schema,
        options=data.options,
        files_per_trigger=files_per_trigger,
        batches=batches,
    )


def _alternate(
    bench: Bench,
    pair: Pair | None,
    spec: RoundSpec,
    *,
    spec_of_spark: RoundSpec | None = None,
    warm_up: RoundSpec | None = None,
    spark_rounds: int | None = None,
) -> Rounds:
    """Warm up both sides, then measure them in alternating rounds, so that other load affects both alike.

    Args:
        spec: what both sides run; ``spec_of_spark`` replaces it for Spark.
        warm_up: what both sides run as a warm-up; if None, the same as in the measured rounds.
        spark_rounds: the number of measured rounds of Spark; if None, as many as of flip27.
    """
    assert pair is not None
    spec_of_spark = spec_of_spark or spec
    spark_rounds = bench.sizes.rounds if spark_rounds is None else spark_rounds
    warmed: list[Round] = []

    def run(what: str, side: QueryProcess, asked: RoundSpec) -> Round:
        bench.say(f"  {what} ...")
        done = side.run(asked)
        bench.say(f"  {what}: {done.seconds:.1f} s")
        return done

    for _ in range(bench.sizes.warm_ups):
        warmed += [
            run("warm-up, Spark", pair.spark, warm_up or spec_of_spark),
            run("warm-up, flip27", pair.flip27, warm_up or spec),
        ]
    spark: list[Round] = []
    flip27: list[Round] = []
    for number in range(bench.sizes.rounds):
        of = f"round {number + 1} of {bench.sizes.rounds}"
        if number < spark_rounds:
            spark.append(run(f"{of}, Spark", pair.spark, spec_of_spark))
        flip27.append(run(f"{of}, flip27", pair.flip27, spec))
    return Rounds(warm_up=tuple(warmed), spark=tuple(spark), flip27=tuple(flip27))


def _tiny_files(name: str, reader: str) -> Callable[[Bench, Pair | None], list[Outcome]]:
    def run(bench: Bench, pair: Pair | None) -> list[Outcome]:
        tiny = bench.sizes.tiny[name]
        data, small = bench.data.tiny(tiny.files, reader), bench.data.tiny(tiny.warm_up, reader)
        spark_rounds = min(bench.sizes.slow_rounds, bench.sizes.rounds)
        rounds = _alternate(
            bench,
            pair,
            _spec(data, tiny.per_trigger),
            warm_up=_spec(small, max(1, tiny.warm_up // 2)),
            spark_rounds=spark_rounds,
        )
        title = f"{tiny.files:,} one-row {reader} files, {tiny.per_trigger:,} per trigger"
        note = f"{spark_rounds} round(s) of Spark" if spark_rounds < bench.sizes.rounds else ""
        return [faster(title, rounds, BY_NAME[name].target, rows=data.rows, note=note)]

    return run


def _bulk(
    name: str, reader: str, *, one_file: bool = False, is_parsed: bool = False
) -> Callable[[Bench, Pair | None], list[Outcome]]:
    def run(bench: Bench, pair: Pair | None) -> list[Outcome]:
        sizes = bench.sizes
        bench.say("  creating the data, once ...")
        file_bytes = sizes.bulk_bytes if one_file else sizes.file_bytes
        data = bench.data.bulk(reader, total_bytes=sizes.bulk_bytes, file_bytes=file_bytes)
        spec = msgspec.structs.replace(_spec(data, sizes.files_per_trigger), is_parsed=is_parsed)
        rounds = _alternate(bench, pair, spec)
        title = f"{data.bytes / 1e6:,.0f} MB of {reader}, ten columns, {data.files} file(s)"
        title += ", lines parsed by Spark" if is_parsed else ""
        return [faster(title, rounds, BY_NAME[name].target, rows=data.rows)]

    return run


def _native(bench: Bench, pair: Pair | None) -> list[Outcome]:
    data = bench.data.bulk("parquet", total_bytes=bench.sizes.bulk_bytes, file_bytes=bench.sizes.file_bytes)
    spec = _native_spec(data, bench.sizes.files_per_trigger)
    rounds = _alternate(bench, pair, spec, warm_up=_counted(spec))
    title = f"{data.bytes / 1e6:,.0f} MB of parquet, ten columns, native reads"
    return [batches_faster(title, rounds, BY_NAME["native"].target, rows=data.rows)]


def _native_pruned(bench: Bench, pair: Pair | None) -> list[Outcome]:
    assert pair is not None
    sizes = bench.sizes
    bench.say("  creating the data, once ...")
    data = bench.data.wide(total_bytes=sizes.bulk_bytes, file_bytes=sizes.file_bytes)
    spec = _native_spec(data, sizes.files_per_trigger)
    spec = msgspec.structs.replace(spec, select=("id0", "price3"), where="quantity0 < 500")
    rounds = _alternate(bench, pair, spec, warm_up=_counted(spec))
    bench.say("  plain flip27 ...")
    plain = pair.flip27.run(msgspec.structs.replace(spec, native_files=0))
    title = f"two of fifty columns with a filter, {data.bytes / 1e6:,.0f} MB of parquet, native reads"
    note = f"flip27's own reader, which reads all columns: {sum(plain.batch_ms) / 1000:.1f} s"
    return [batches_faster(title, rounds, BY_NAME["native-pruned"].target, rows=data.rows, note=note)]


def _native_tiny(bench: Bench, pair: Pair | None) -> list[Outcome]:
    tiny = bench.sizes.tiny["tiny-parquet"]
    data, small = bench.data.tiny(tiny.files, "parquet"), bench.data.tiny(tiny.warm_up, "parquet")
    warm_up = _counted(_native_spec(small, max(1, tiny.warm_up // 2)))
    spark_rounds = min(bench.sizes.slow_rounds, bench.sizes.rounds)
    spec = _native_spec(data, tiny.per_trigger)
    rounds = _alternate(bench, pair, spec, warm_up=warm_up, spark_rounds=spark_rounds)
    title = f"{tiny.files:,} one-row parquet files, native reads"
    return [faster(title, rounds, BY_NAME["native-tiny"].target, rows=data.rows)]


def _native_spec(data: Dataset, files_per_trigger: int) -> RoundSpec:
    spec = _spec(data, files_per_trigger)
    return msgspec.structs.replace(spec, native_files=data.files, expected_rows=data.rows)


def _counted(spec: RoundSpec) -> RoundSpec:
    """Return a copy of this round for use as a warm-up, in which native reads count their rows."""
    return msgspec.structs.replace(spec, is_counted=True)


def _known_tree(bench: Bench, pair: Pair | None) -> list[Outcome]:
    assert pair is not None
    sizes = bench.sizes
    bench.say("  creating the data, once ...")
    tree = bench.data.tree(sizes.known_files)
    spec = msgspec.structs.replace(_spec(tree, sizes.known_files), options=known_tree.OPTIONS)
    spark_rounds = min(sizes.slow_rounds, sizes.rounds)
    with tempfile.TemporaryDirectory(prefix="flip27-bench-") as scratch:
        spark, flip27 = known_tree.know_the_tree(pair, spec, Path(scratch))
        with known_tree.new_files(tree, sizes.new_files):
            ours = msgspec.structs.replace(spec, template=str(flip27))
            theirs = msgspec.structs.replace(spec, template=str(spark))
            rounds = _alternate(bench, pair, ours, spec_of_spark=theirs, spark_rounds=spark_rounds)
    title = f"{sizes.new_files:,} new files in a tree of {sizes.known_files:,} known ones"
    listing = statistics.median(one.phases_ms["latestOffset"] for one in rounds.spark)
    note = f"a whole run, with its restart; Spark's latestOffset alone: {listing / 1000:.1f} s"
    note += f"; {spark_rounds} round(s) of Spark" if spark_rounds < sizes.rounds else ""
    return [faster(title, rounds, BY_NAME["known-tree"].target, rows=sizes.new_files, note=note)]


def _one_row_batches(name: str) -> Callable[[Bench, Pair | None], list[Outcome]]:
    def run(bench: Bench, pair: Pair | None) -> list[Outcome]:
        batches = bench.sizes.one_row_batches
        # More files than batches: the query is stopped after enough batches, not after the last file.
        data = bench.data.tiny(2 * batches + 50)
        spec = _spec(data, 1, batches)
        rounds = _alternate(bench, pair, spec)
        case = BY_NAME[name]
        sockets = ", unix sockets" if case.conf else ""
        return [batch_time(f"one-row batches{sockets}", rounds, case.target, rows=batches)]

    return run


def _start(bench: Bench, pair: Pair | None) -> list[Outcome]:
    rounds = _alternate(bench, pair, _spec(bench.data.tiny(1), 1))
    return start_outcomes(rounds, measure_parts(bench.sizes.rounds), rows=1)


def _known_files(bench: Bench, _pair: Pair | None) -> list[Outcome]:
    sizes = bench.sizes
    spec = KnownFilesSpec(known_files=sizes.known_files, new_files=sizes.new_files, rounds=sizes.known_rounds)
    name = f"{sizes.new_files:,} new files among {sizes.known_files:,} known"
    return known_files_outcomes(name, measure_known_files(spec))


def _very_many_known_files(bench: Bench, _pair: Pair | None) -> list[Outcome]:
    sizes = bench.sizes
    known = 10 * sizes.known_files
    spec = KnownFilesSpec(known_files=known, new_files=sizes.new_files, rounds=sizes.many_known_rounds)
    name = f"{sizes.new_files:,} new files among {known:,} known"
    return many_known_files_outcomes(name, measure_known_files(spec))


def _report_cost(bench: Bench, _pair: Pair | None) -> list[Outcome]:
    batches = bench.sizes.report_batches
    note = "without Spark; all work for reports is done sequentially"
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="flip27-bench-") as folder:
        cost = measure_report_cost(folder, {}, batches)
        name = f"batches of {SUBTASKS} subtasks that report, local disk"
        outcomes.append(report_cost_outcome(name, cost, BY_NAME["reports"].target, note))
    with s3_endpoint() as url:
        bucket = new_bucket(url)
        cost = measure_report_cost(f"s3://{bucket.name}/state", bucket.options, batches)
        name = f"batches of {SUBTASKS} subtasks that report, S3 (moto)"
        # This limit is only a sanity check: the time depends on the latency of the store.
        outcomes.append(report_cost_outcome(name, cost, Target("at most", 1_000, "ms"), note))
    return outcomes


def _postgres(bench: Bench, _pair: Pair | None) -> list[Outcome]:
    return postgres_outcomes(bench.sizes, bench.conf)


def _mysql(bench: Bench, _pair: Pair | None) -> list[Outcome]:
    return mysql_outcomes(bench.sizes, bench.conf)


def _kafka(bench: Bench, _pair: Pair | None) -> list[Outcome]:
    return kafka_outcomes(bench.sizes, bench.conf)


CASES = (
    Case(name="tiny", target=Target("at least", 15), run=_tiny_files("tiny", "json")),
    Case(name="tiny-often", target=Target("at least", 8), run=_tiny_files("tiny-often", "json")),
    Case(name="tiny-parquet", target=Target("at least", 8), run=_tiny_files("tiny-parquet", "parquet")),
    Case(name="parquet", target=Target("at least", 1.4), run=_bulk("parquet", "parquet")),
    Case(name="native", target=Target("at least", 0.95), run=_native),
    Case(name="native-pruned", target=Target("at least", 0.95), run=_native_pruned),
    Case(name="native-tiny", target=Target("at least", 2), run=_native_tiny),
    Case(name="json", target=Target("at least", 1.6), run=_bulk("json", "json")),
    Case(name="csv", target=Target("at least", 2), run=_bulk("csv", "csv")),
    Case(name="one-json", target=Target("at least", 1.6), run=_bulk("one-json", "json", one_file=True)),
    Case(name="one-csv", target=Target("at least", 2), run=_bulk("one-csv", "csv", one_file=True)),
    Case(
        name="parsed-json", target=Target("at least", 0.4), run=_bulk("parsed-json", "json", is_parsed=True)
    ),
    Case(name="parsed-csv", target=Target("at least", 0.6), run=_bulk("parsed-csv", "csv", is_parsed=True)),
    Case(
        name="known-tree", target=Target("at least", 5), run=_known_tree, conf={"spark.driver.memory": "3g"}
    ),
    Case(name="one-row", target=Target("at most", 1.0), run=_one_row_batches("one-row")),
    Case(
        name="one-row-sockets",
        target=Target("at most", 0.75),
        run=_one_row_batches("one-row-sockets"),
        conf=UNIX_SOCKETS,
    ),
    Case(name="start", target=HALF_A_SECOND, run=_start),
    Case(name="known", target=Target("at most", 100, "ms"), run=_known_files, needs_spark=False),
    Case(name="known-10x", target=Target("at most", 10, "s"), run=_very_many_known_files, needs_spark=False),
    Case(name="postgres", target=HALF, run=_postgres, needs_spark=False),
    Case(name="mysql", target=HALF, run=_mysql, needs_spark=False),
    Case(name="kafka", target=HALF, run=_kafka, needs_spark=False),
    Case(name="reports", target=Target("at most", 25, "ms"), run=_report_cost, needs_spark=False),
)
BY_NAME = {case.name: case for case in CASES}
