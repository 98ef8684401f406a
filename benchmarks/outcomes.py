"""The outcome of a case: ratios, spreads, targets. Pure functions."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal, TypeVar

import msgspec

from .report_cost import ReportCost
from .rounds import KnownFiles, Memory, Round

T = TypeVar("T")


class Spread(msgspec.Struct, frozen=True):
    """A median, and the smallest and largest value."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of some values."""
        return cls(statistics.median(values), min(values), max(values))


class Target(msgspec.Struct, frozen=True):
    """A bound that a measured number must keep."""

    bound: Literal["at least", "at most"]
    value: float
    unit: str = "x"

    def reached_by(self, measured: float) -> bool:
        """Whether a measured value keeps the bound."""
        return measured >= self.value if self.bound == "at least" else measured <= self.value


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table.

    Attributes:
        what: what the two columns of numbers show, with their unit.
        note: printed below the case.
        warm_up: the rounds of the warm-up, Spark and flip27 in turn.
        spark, flip27: the measured values; None for Spark in cases where only flip27 is measured.
        result: the value that is compared with the target: a ratio, or flip27's value itself.
        rounds: the numbers of measured rounds of Spark and of flip27.
        failure: why the case does not count, whatever was measured.
    """

    case: str
    what: str
    spark: Spread | None
    flip27: Spread | None
    result: Spread | None
    target: Target
    reached: bool
    rounds: tuple[int, int]
    note: str = ""
    failure: str | None = None
    spark_rounds: tuple[Round, ...] = ()
    flip27_rounds: tuple[Round, ...] = ()
    warm_up: tuple[Round, ...] = ()
    known_files: KnownFiles | None = None
    spark_memory: Memory | None = None
    flip27_memory: Memory | None = None


class Rounds(msgspec.Struct, frozen=True, kw_only=True):
    """All rounds that were run for a case. ``warm_up`` alternates between Spark and flip27."""

    warm_up: tuple[Round, ...]
    spark: tuple[Round, ...]
    flip27: tuple[Round, ...]


def faster(case: str, rounds: Rounds, target: Target, *, rows: int, note: str = "") -> Outcome:
    """How many times faster flip27 reads the same data."""
    spark = [one.seconds for one in rounds.spark]
    flip27 = [one.seconds for one in rounds.flip27]
    ratios = [theirs / ours for theirs, ours in _paired(spark, flip27)]
    batches = Spread.of([_batches_ms(a) / _batches_ms(b) for a, b in _paired(rounds.spark, rounds.flip27)])
    notes = [note] if note else []
    notes.append(f"without the start of the query, batches alone: {batches.median:.2f} x")
    if (saved := _cpu_ratio(rounds)) is not None:
        notes.append(f"processor time: {saved:.2f} x")
    numbers = (spark, flip27, ratios)
    return _compared(case, "seconds", rounds, numbers, target, rows=rows, note="; ".join(notes))


def batches_faster(case: str, rounds: Rounds, target: Target, *, rows: int, note: str = "") -> Outcome:
    """How many times faster the batches are, without the start of the query."""
    whole = Spread.of(
        [theirs.seconds / ours.seconds for theirs, ours in _paired(rounds.spark, rounds.flip27)]
    )
    note = f"{note}; " * bool(note) + f"whole run: {whole.median:.2f} x"
    spark, flip27 = ([_batches_ms(one) / 1000 for one in side] for side in (rounds.spark, rounds.flip27))
    ratios = [theirs / ours for theirs, ours in _paired(spark, flip27)]
    return _compared(
        case, "seconds, batches alone", rounds, (spark, flip27, ratios), target, rows=rows, note=note
    )


def batch_time(case: str, rounds: Rounds, target: Target, *, rows: int) -> Outcome:
    """How long a batch takes, compared with a batch of Spark."""
    spark, flip27 = ([_typical_batch_ms(one) for one in side] for side in (rounds.spark, rounds.flip27))
    ratios = [ours / theirs for theirs, ours in _paired(spark, flip27)]
    return _compared(case, "ms a batch", rounds, (spark, flip27, ratios), target, rows=rows)


def _compared(
    case: str,
    what: str,
    rounds: Rounds,
    numbers: tuple[list[float], list[float], list[float]],
    target: Target,
    *,
    rows: int,
    note: str = "",
) -> Outcome:
    spark, flip27, ratios = map(Spread.of, numbers)
    counted = {one.rows for one in (*rounds.spark, *rounds.flip27)}
    failure = None if counted == {rows} else f"the data has {rows} rows, but {sorted(counted)} were read"
    return Outcome(
        case=case,
        what=what,
        spark=spark,
        flip27=flip27,
        result=ratios,
        target=target,
        reached=failure is None and target.reached_by(ratios.median),
        rounds=(len(rounds.spark), len(rounds.flip27)),
        note=note,
        failure=failure,
        spark_rounds=rounds.spark,
        flip27_rounds=rounds.flip27,
        warm_up=rounds.warm_up,
        spark_memory=_peaks(rounds.spark),
        flip27_memory=_peaks(rounds.flip27),
    )


def known_files_outcomes(case: str, measured: KnownFiles) -> list[Outcome]:
    """One line of the table for each number."""
    ratio = measured.savepoint_bytes / measured.spark_log_bytes
    beside = Spread.of([measured.savepoint_bytes / 1e6])
    lines = [
        _latest_offset(measured),
        _state_written(measured),
        _once("offset, B", measured.offset_bytes, Target("at most", 4096, "B")),
        _once("restart, ms", measured.restore_ms, Target("at most", 2_000, "ms")),
        _once("savepoint taken, ms", measured.savepoint_ms, Target("at most", 1_000, "ms")),
        _once("start from a savepoint, ms", measured.fork_ms, Target("at most", 2_000, "ms")),
        ("savepoint, MB, and its share of Spark's log", beside, ratio, Target("at most", 1)),
    ]
    return _lines(case, measured, lines)


def many_known_files_outcomes(case: str, measured: KnownFiles) -> list[Outcome]:
    """The numbers that must not grow with the known files, or only by a little for each file."""
    lines = [
        _latest_offset(measured),
        _state_written(measured),
        _once("restored, s", measured.restored_ms / 1000, Target("at most", 10, "s")),
    ]
    if measured.resident_mb is not None:
        resident = measured.resident_mb * 1024 * 1024 / measured.known_files
        lines.append(_once("resident, B per known file", resident, Target("at most", 64, "B")))
    return _lines(case, measured, lines)


_Line = tuple[str, Spread, float, Target]
"""What is measured, its spread, the value that is compared with the target, and the target."""


def _latest_offset(measured: KnownFiles) -> _Line:
    took = Spread.of(measured.latest_offset_ms)
    return "latestOffset, ms", took, took.median, Target("at most", 100, "ms")


def _state_written(measured: KnownFiles) -> _Line:
    wrote = Spread.of(measured.bytes_per_new_file)
    # Every sixteenth batch merges what the fifteen before it wrote, so the mean is the cost of a file.
    mean = statistics.mean(measured.bytes_per_new_file)
    return "state written, B per new file", wrote, mean, Target("at most", 100, "B")


def _once(what: str, value: float, target: Target) -> _Line:
    return what, Spread.of([float(value)]), value, target


def _lines(case: str, measured: KnownFiles, lines: Sequence[_Line]) -> list[Outcome]:
    return [
        Outcome(
            case=case,
            what=what,
            spark=None,
            flip27=spread,
            result=Spread(held, spread.least, spread.most),
            target=target,
            reached=target.reached_by(held),
            rounds=(0, len(measured.latest_offset_ms)),
            note=measured.listing if number == 0 else "",
            known_files=measured if number == 0 else None,
            flip27_memory=Memory(coordinator=measured.coordinator_mb) if number == 0 else None,
        )
        for number, (what, spread, held, target) in enumerate(lines)
    ]


def report_cost_outcome(case: str, cost: ReportCost, target: Target, note: str) -> Outcome:
    """The milliseconds that reports add to a batch."""
    without, added = Spread.of(cost.without_ms), Spread.of(cost.added_ms)
    return Outcome(
        case=case,
        what="ms added by reports",
        spark=None,
        flip27=Spread.of(cost.with_reports_ms),
        result=added,
        target=target,
        reached=target.reached_by(added.median),
        rounds=(0, len(cost.added_ms)),
        note=f"{note}; a batch without reports: {without.median:.1f} ms",
    )


def failed(case: str, target: Target, reason: str) -> Outcome:
    """A case that could not be measured."""
    return Outcome(
        case=case,
        what="",
        spark=None,
        flip27=None,
        result=None,
        target=target,
        reached=False,
        rounds=(0, 0),
        failure=reason,
    )


def _paired(spark: Sequence[T], flip27: Sequence[T]) -> list[tuple[T, T]]:
    """Pair the rounds of both sides; if Spark ran fewer, the last of its rounds is paired with the rest."""
    return [(spark[min(i, len(spark) - 1)], ours) for i, ours in enumerate(flip27)]


def _cpu_ratio(rounds: Rounds) -> float | None:
    spark = [used for one in rounds.spark if (used := one.cpu.total)]
    flip27 = [used for one in rounds.flip27 if (used := one.cpu.total)]
    return statistics.median(spark) / statistics.median(flip27) if spark and flip27 else None


def _batches_ms(one: Round) -> float:
    return float(sum(one.batch_ms))


def _typical_batch_ms(one: Round) -> float:
    # The first batches of a query start processes and load classes.
    settled = one.batch_ms[min(5, len(one.batch_ms) // 2) :]
    return float(statistics.median(settled))


def _peaks(rounds: Sequence[Round]) -> Memory:
    highest = {
        role: max((value for one in rounds if (value := getattr(one.memory, role)) is not None), default=None)
        for role in Memory.__struct_fields__
    }
    return Memory(**highest)
