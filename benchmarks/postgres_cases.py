"""The PostgreSQL cases: what is measured, what it is compared with, and the targets."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from .outcomes import Outcome, Target
from .postgres import Spec
from .server_cases import alone, beside, measured
from .sizes import Sizes

HALF = Target("at least", 0.5)
MORE_THAN_STREAM = Target("at least", 1.5)
ONE_SECOND = Target("at most", 1_000, "ms")
MEMORY = Target("at most", 512, "MB")


def postgres_outcomes(sizes: Sizes, conf: Mapping[str, str]) -> list[Outcome]:
    """Measure the PostgreSQL cases; return their five lines of the table."""
    rounds = sizes.rounds
    changes, rows, latency, memory = measured(
        "benchmarks.postgres",
        Spec(what="changes", conf=dict(conf), rows=sizes.postgres_changes, rounds=rounds),
        Spec(what="snapshot", conf=dict(conf), rows=sizes.postgres_rows, rounds=rounds),
        Spec(what="latency", conf=dict(conf), rows=sizes.postgres_commits, rounds=1),
        Spec(what="memory", conf=dict(conf), rows=sizes.postgres_changes, rounds=min(rounds, 2)),
        shares_session=sizes.shares_sessions,
    )
    of_changes = f"{sizes.postgres_changes:,} changes from a PostgreSQL slot"
    of_rows = f"{sizes.postgres_rows:,} rows of a PostgreSQL table"
    milliseconds = sorted(1000 * second for second in latency.ours)
    p99 = milliseconds[min(len(milliseconds) - 1, int(0.99 * len(milliseconds)))]
    return [
        beside(f"{of_changes}, beside COPY of the messages", changes, "COPY", HALF, "goal: 0.8 x"),
        beside(f"{of_changes}, beside psycopg2's stream", changes, "stream", MORE_THAN_STREAM, "counted"),
        beside(f"{of_rows}, beside COPY in two ranges", rows, "COPY", HALF, ""),
        alone(
            "a PostgreSQL commit to the sink", "ms", milliseconds, p99, ONE_SECOND,
            f"p50 {statistics.median(milliseconds):.0f} ms, p99 {p99:.0f} ms of {len(milliseconds)} commits",
        ),
        alone(
            f"a PostgreSQL transaction of {sizes.postgres_changes:,} rows", "MB of the task", memory.ours,
            max(memory.ours), MEMORY, "",
        ),
    ]  # fmt: skip
