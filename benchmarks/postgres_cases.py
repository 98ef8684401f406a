"""The cases of PostgreSQL: what is measured, beside what, and what it must reach."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from pathlib import Path

import msgspec

from flip27_source.cli.demo.processes import ChildProcess

from .outcomes import Outcome, Spread, Target
from .postgres import Measured, Spec
from .sessions import one_line
from .sizes import Sizes

HALF = Target("at least", 0.5)
MORE_THAN_STREAM = Target("at least", 1.5)
ONE_SECOND = Target("at most", 1_000, "ms")
MEMORY = Target("at most", 512, "MB")


def postgres_outcomes(sizes: Sizes) -> list[Outcome]:
    """All five lines."""
    rounds = sizes.rounds
    changes = _measured(Spec(what="changes", rows=sizes.postgres_changes, rounds=rounds))
    rows = _measured(Spec(what="snapshot", rows=sizes.postgres_rows, rounds=rounds))
    latency = _measured(Spec(what="latency", rows=sizes.postgres_commits, rounds=1))
    memory = _measured(Spec(what="memory", rows=sizes.postgres_changes, rounds=min(rounds, 2)))
    of_changes = f"{sizes.postgres_changes:,} changes from a PostgreSQL slot"
    of_rows = f"{sizes.postgres_rows:,} rows of a PostgreSQL table"
    milliseconds = sorted(1000 * second for second in latency.ours)
    p99 = milliseconds[min(len(milliseconds) - 1, int(0.99 * len(milliseconds)))]
    return [
        _beside(f"{of_changes}, beside COPY of the messages", changes, "COPY", HALF, "goal: 0.8 x"),
        _beside(f"{of_changes}, beside psycopg2's stream", changes, "stream", MORE_THAN_STREAM, "counted"),
        _beside(f"{of_rows}, beside COPY in two ranges", rows, "COPY", HALF, ""),
        _alone(
            "a PostgreSQL commit to the sink", "ms", milliseconds, p99, ONE_SECOND,
            f"p50 {statistics.median(milliseconds):.0f} ms, p99 {p99:.0f} ms of {len(milliseconds)} commits",
        ),
        _alone(
            f"a PostgreSQL transaction of {sizes.postgres_changes:,} rows", "MB of the task", memory.ours,
            max(memory.ours), MEMORY, "",
        ),
    ]  # fmt: skip


def _measured(spec: Spec) -> Measured:
    with tempfile.TemporaryDirectory(prefix="flip27-bench-") as name:
        argument = msgspec.json.encode(spec).decode()
        child = ChildProcess(
            "benchmarks.postgres", [argument], log=Path(name) / "log", stdout=subprocess.PIPE
        )
        with child:
            return msgspec.json.decode(one_line(child), type=Measured)


def _beside(case: str, found: Measured, peer: str, target: Target, note: str) -> Outcome:
    """How many times faster than a peer that is not Spark; its seconds are in Spark's column."""
    ratios = Spread.of([theirs / ours for theirs, ours in zip(found.peers[peer], found.ours, strict=True)])
    alone = statistics.median(found.peers[peer]) / statistics.median(found.batches)
    return Outcome(
        case=case,
        what=f"seconds; {peer} in the place of Spark",
        spark=Spread.of(found.peers[peer]),
        flip27=Spread.of(found.ours),
        result=ratios,
        target=target,
        reached=target.reached_by(ratios.median),
        rounds=(len(found.ours), len(found.ours)),
        note="; ".join([*([note] if note else []), f"without the start of the query: {alone:.2f} x"]),
    )


def _alone(case: str, what: str, values: list[float], held: float, target: Target, note: str) -> Outcome:
    spread = Spread.of(values)
    return Outcome(
        case=case,
        what=what,
        spark=None,
        flip27=spread,
        result=Spread(held, spread.least, spread.most),
        target=target,
        reached=target.reached_by(held),
        rounds=(0, len(values)),
        note=note,
    )
