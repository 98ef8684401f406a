"""The table and the JSON file of a run."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from .outcomes import Outcome, Spread, Target
from .rounds import Memory

_WIDE = 140
"""The width, in characters, that the whole table needs."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that measured, and its load before and after."""

    cores: int
    system: str
    python: str
    pyspark: str
    flip27: str
    load_before: tuple[float, float, float]
    load_after: tuple[float, float, float]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the JSON file."""

    format: int
    began: str
    quick: bool
    machine: Machine
    tuned: bool
    conf: dict[str, str]
    outcomes: list[Outcome]


def machine(load_before: tuple[float, float, float]) -> Machine:
    """Describe this machine, with its load now."""
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
    """The current time, for names and reports."""
    return time.strftime("%Y-%m-%dT%H:%M:%S")


def render(console: Console, outcomes: Sequence[Outcome], *, enforced: bool) -> None:
    """Print both tables.

    On a narrow terminal, or without a terminal, the first table shows only medians, and the details are
    printed below it.
    """
    is_wide = console.width >= _WIDE
    console.print(_results(outcomes, enforced=enforced, is_wide=is_wide))
    if not is_wide:
        for outcome in outcomes:
            console.print(f"{outcome.case}: {_details(outcome)}", highlight=False, markup=False)
        console.print()
    memory = _memory(outcomes)
    if memory.row_count:
        console.print(memory)
    for outcome in outcomes:
        if outcome.failure:
            console.print(f"{outcome.case} failed: {outcome.failure}", style="red", markup=False)


def _results(outcomes: Sequence[Outcome], *, enforced: bool, is_wide: bool) -> Table:
    shown = _spread if is_wide else _median
    spread = " (least to most)" if is_wide else ""
    table = Table(
        title=f"flip27 against Spark's own file source: median{spread}",
        box=box.HEAVY_HEAD if is_wide else box.SIMPLE_HEAD,
        pad_edge=is_wide,
    )
    for heading in ("case", *(["in"] if is_wide else []), "Spark", "flip27", "result", "target", ""):
        is_text = heading in ("case", "in")
        # Wrap only text columns; a number that is broken across two lines is unreadable.
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=not is_text)
    for outcome in outcomes:
        row = [shown(outcome.spark), shown(outcome.flip27), shown(outcome.result), _target(outcome.target)]
        if is_wide:
            note = f"\n[dim]{outcome.note}[/]" if outcome.note else ""
            texts = [f"{outcome.case}{note}", outcome.what]
        else:
            texts = [", ".join(filter(None, (outcome.case, outcome.what)))]
        table.add_row(*texts, *row, _verdict(outcome, enforced=enforced))
    return table


def _details(outcome: Outcome) -> str:
    sides = (("Spark", outcome.spark), ("flip27", outcome.flip27), ("result", outcome.result))
    said = [f"{side} {_spread(spread)}" for side, spread in sides if spread is not None]
    return "; ".join([*said, *([outcome.note] if outcome.note else [])])


def _verdict(outcome: Outcome, *, enforced: bool) -> str:
    if outcome.failure:
        return "[bold red]failed"
    if not enforced:
        return "[dim]not judged"
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


def _median(spread: Spread | None) -> str:
    return "-" if spread is None else _number(spread.median)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
