"""How large the benchmarks are: the sizes for which the targets hold, and small ones to see that they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiny:
    """The numbers of files in a case of one-row files: in all, in each batch, and in the warm-up round."""

    files: int
    per_trigger: int
    warm_up: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of all cases.

    Attributes:
        tiny: the cases of one-row files, by name.
        bulk_bytes: the size of the data in each of the Parquet, JSON and CSV cases.
        file_bytes: the size of each of its files.
        files_per_trigger: the number of these files in a batch.
        one_row_batches: the batches of the one-row case.
        known_files: the files that are known when new ones arrive.
        new_files: the new files of each round.
        known_rounds: the rounds with ``known_files`` known files.
        many_known_rounds: the rounds with ten times as many known files.
        report_batches: the batches of the case of reports, with and without them.
        rounds: the measured rounds.
        warm_ups: the rounds of each side before the measured ones.
        slow_rounds: the measured rounds of Spark in cases where one takes over a minute.
        shares_sessions: whether cases may share a Spark session, so that fewer JVMs are started.
        enforces_targets: whether a missed target is a failure.
    """

    tiny: Mapping[str, Tiny]
    bulk_bytes: int
    file_bytes: int
    files_per_trigger: int
    one_row_batches: int
    known_files: int
    new_files: int
    known_rounds: int
    many_known_rounds: int
    report_batches: int
    postgres_changes: int
    postgres_rows: int
    postgres_commits: int
    mysql_changes: int
    mysql_transactions: int
    kafka_messages: int
    kafka_values: int
    kafka_partitions: int
    kafka_latencies: int
    kafka_idle_s: int
    rounds: int
    warm_ups: int
    slow_rounds: int
    shares_sessions: bool
    enforces_targets: bool


FULL = Sizes(
    tiny={
        "tiny": Tiny(files=100_000, per_trigger=10_000, warm_up=2_000),
        "tiny-often": Tiny(files=100_000, per_trigger=1_000, warm_up=2_000),
        "tiny-parquet": Tiny(files=20_000, per_trigger=10_000, warm_up=2_000),
    },
    bulk_bytes=1_024 * MB,
    file_bytes=64 * MB,
    files_per_trigger=4,
    one_row_batches=100,
    known_files=1_000_000,
    new_files=1_000,
    known_rounds=20,
    many_known_rounds=5,
    report_batches=30,
    postgres_changes=1_000_000,
    postgres_rows=5_000_000,
    postgres_commits=300,
    # The start of a query takes a second: the log has to be long enough for the rest to count.
    mysql_changes=2_000_000,
    mysql_transactions=300_000,
    kafka_messages=5_000_000,
    kafka_values=1_000_000,
    kafka_partitions=5_000,
    kafka_latencies=300,
    kafka_idle_s=20,
    rounds=5,
    warm_ups=1,
    slow_rounds=1,
    shares_sessions=False,
    enforces_targets=True,
)

QUICK = Sizes(
    tiny={
        "tiny": Tiny(files=2_000, per_trigger=500, warm_up=100),
        "tiny-often": Tiny(files=2_000, per_trigger=200, warm_up=100),
        "tiny-parquet": Tiny(files=1_000, per_trigger=500, warm_up=100),
    },
    bulk_bytes=32 * MB,
    file_bytes=8 * MB,
    files_per_trigger=2,
    one_row_batches=20,
    known_files=50_000,
    new_files=1_000,
    known_rounds=5,
    many_known_rounds=2,
    report_batches=3,
    postgres_changes=20_000,
    postgres_rows=50_000,
    postgres_commits=20,
    mysql_changes=20_000,
    mysql_transactions=2_000,
    kafka_messages=20_000,
    kafka_values=20_000,
    kafka_partitions=200,
    kafka_latencies=20,
    kafka_idle_s=2,
    rounds=1,
    warm_ups=1,
    slow_rounds=1,
    shares_sessions=True,
    enforces_targets=False,
)
