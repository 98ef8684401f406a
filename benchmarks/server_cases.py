"""Cases with a server. They run in other processes and are compared with what the server alone achieves."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.child_processes import ChildProcess

from .outcomes import Outcome, Spread, Target
from .sessions import one_line


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What a case measured, mostly the seconds of each round.

    Attributes:
        ours: the numbers of flip27: seconds of each round; for other cases, what their function measures.
        batches: the seconds of each round without the start of the query.
        peers: the same numbers for what flip27 is compared with, or further numbers of flip27.
    """

    ours: list[float]
    batches: list[float] = []
    peers: dict[str, list[float]] = {}


def measured(module: str, *specs: msgspec.Struct, shares_session: bool) -> Iterator[Compared]:
    """Run a module's program for each spec, in one process each or all in one; yield what it measured."""
    for together in [specs] if shares_session else [(spec,) for spec in specs]:
        arguments = [msgspec.json.encode(spec).decode() for spec in together]
        with tempfile.TemporaryDirectory(prefix="flip27-bench-") as name:
            child = ChildProcess(module, arguments, log=Path(name) / "log", stdout=subprocess.PIPE)
            with child:
                for _ in together:
                    yield msgspec.json.decode(one_line(child), type=Compared)


def beside(case: str, found: Compared, peer: str, target: Target, note: str) -> Outcome:
    """How many times faster flip27 is than a peer other than Spark, shown in Spark's column."""
    ratios = Spread.of([theirs / ours for theirs, ours in zip(found.peers[peer], found.ours, strict=True)])
    alone = statistics.median(found.peers[peer]) / statistics.median(found.batches)
    return Outcome(
        case=case,
        what=f"seconds; {peer} instead of Spark",
        spark=Spread.of(found.peers[peer]),
        flip27=Spread.of(found.ours),
        result=ratios,
        target=target,
        reached=target.reached_by(ratios.median),
        rounds=(len(found.ours), len(found.ours)),
        note="; ".join([*([note] if note else []), f"without the start of the query: {alone:.2f} x"]),
    )


def alone(case: str, what: str, values: list[float], held: float, target: Target, note: str) -> Outcome:
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
