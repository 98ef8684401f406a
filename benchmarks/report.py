"""The table and the JSON file of a run."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from .outcomes import Outcome, Spread, Target
from .rounds import Memory


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was measured, and how busy that was with other things."""

    cores: int
    system: str
    python: str
    pyspark: str
    flip27: str
    load_before: tuple[float, float, float]
    load_after: tuple[float, float, float]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What the JSON file holds."""

    format: int
    began: str
    quick: bool
    machine: Machine
    tuned: bool
    conf: dict[str, str]
    outcomes: list[Outcome]


def machine(load_before: tuple[float, float, float]) -> Machine:
    """This machine, now."""
    return Machine(
        cores=os.cpu_count() or 1,
        system=platform.platform(),
        python=platform.python_version(),
        pyspark=version("pyspark"),
        flip27=version("flip27-source"),
        load_before=load_before,
        load_after=os.getloadavg(),
    )


def save(report: Report, folder: Path) -> Path:
    """Write the JSON file."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = "quick-" if report.quick else ""
    file = folder / f"{kind}{report.began.replace(':', '-')}.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    return file


def now() -> str:
    """The time, for names and reports."""
    return time.strftime("%Y-%m-%dT%H:%M:%S")


def render(console: Console, outcomes: Sequence[Outcome], *, enforced: bool) -> None:
    """Both tables."""
    console.print(_results(outcomes, enforced=enforced))
    console.print(_memory(outcomes))
    for outcome in outcomes:
        if outcome.failure:
            console.print(f"{outcome.case} failed: {outcome.failure}", style="red", markup=False)


def _results(outcomes: Sequence[Outcome], *, enforced: bool) -> Table:
    table = Table(title="flip27 against Spark's own file source: median (least to most)")
    for heading in ("case", "in", "Spark", "flip27", "result", "target", ""):
        table.add_column(heading, justify="left" if heading in ("case", "in") else "right")
    for outcome in outcomes:
        case = f"{outcome.case}\n[dim]{outcome.note}[/]" if outcome.note else outcome.case
        table.add_row(
            case,
            outcome.what,
            _spread(outcome.spark),
            _spread(outcome.flip27),
            _spread(outcome.result),
            _target(outcome.target),
            _verdict(outcome, enforced=enforced),
        )
    return table


def _verdict(outcome: Outcome, *, enforced: bool) -> str:
    if outcome.failure:
        return "[bold red]failed"
    if not enforced:
        return "[dim]too small to judge"
    return "[green]reached" if outcome.reached else "[bold red]missed"


def _memory(outcomes: Sequence[Outcome]) -> Table:
    table = Table(title="Peak memory, MB")
    for heading in ("case", "side", "JVM", "coordinator", "Python worker"):
        table.add_column(heading, justify="left" if heading in ("case", "side") else "right")
    for outcome in outcomes:
        for side, memory in (("Spark", outcome.spark_memory), ("flip27", outcome.flip27_memory)):
            if memory is not None and memory != Memory():
                peaks = (memory.jvm, memory.coordinator, memory.worker)
                table.add_row(outcome.case, side, *("-" if peak is None else f"{peak:,}" for peak in peaks))
    return table


def _target(target: Target) -> str:
    sign = "≥" if target.bound == "at least" else "≤"
    return f"{sign} {target.value:g} {target.unit}"


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    median, least, most = (_number(value) for value in (spread.median, spread.least, spread.most))
    return median if least == most else f"{median} ({least} to {most})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
