"""A report of a case for people."""

from __future__ import annotations

import pyarrow as pa

from tests.readers.spark_reading import cells

from .case import Case
from .comparison import Compared, Mismatch
from .spark_side import Failed, Outcome

_MOST_MISMATCHES, _MOST_CHARACTERS = 20, 2000


def story(case: Case, found: Compared, mismatch: Mismatch | None = None) -> str:
    """A case with its files, Spark's rows and ours."""
    parts = [f"make fuzz ARGS='{case.name}'", f"schema: {case.ddl or 'inferred'}"]
    parts += [
        f"options: {dict(case.options)}  here alone: {dict(case.own_options)}",
        f"zones: {case.zone}, machine {case.machine_zone}, JVM {case.jvm_zone}  cuts: {case.cuts}",
    ]
    for file in case.files:
        parts += [f"file {file.path}", file.shown()]
        for side, outcomes in (("Spark", found.theirs), ("here", found.ours)):
            if file.path in outcomes:
                parts.append(f"{side}: {_rows(outcomes[file.path])}")
    if found.refused:
        parts.append(f"refused: {found.refused}")
    parts += [str(one) for one in ([mismatch] if mismatch else found.mismatches[:_MOST_MISMATCHES])]
    return "\n".join(parts)


def _rows(outcome: Outcome) -> str:
    if isinstance(outcome, Failed):
        return outcome.why[:_MOST_CHARACTERS]
    return "".join(f"\n  {name}: {_values(outcome, name)}" for name in outcome.column_names)


def _values(table: pa.Table, name: str) -> str:
    return str(cells(table.column(name)))[:_MOST_CHARACTERS]
