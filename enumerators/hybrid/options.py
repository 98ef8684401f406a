"""The options of a chain itself; those of its parts follow from their sources."""

from __future__ import annotations

from typing import Any

from flip27_source.options import Change, NextBatchOption, Option, duration_s, one_of

SWITCH_OVERLAP: Option[float] = NextBatchOption(
    name="switchOverlap",
    parse=duration_s,
    default_text="0s",
    doc="How far before the largest event time of a source the next one of a chain starts, if it starts at a "
    "{switch} that is a time: rows of that span may arrive from both.",
    change_note="for parts that start later",
)
READ_UNTIL: Option[str] = NextBatchOption(
    name="readUntil",
    parse=one_of("end", "next"),
    doc="How far a source of a chain is read: to its end; or, with next, only to where the data of the next "
    "source begins, if that tells it (Kafka). Needs eventTimeOrder, and {switch} in an option of the next.",
    change_note="until the next source has started",
)
HYBRID: Option[str | None] = Option(
    name="hybrid.*",
    changes=Change.PENDING_BATCH,
    change_note="but each as its source has it; the sources themselves are fixed at the first start",
    doc="The sources of a chain, numbered from 1: hybrid.1.enumerator, hybrid.1.path, "
    "hybrid.2.startingTimestamp and so on, each option as its source has it. {switch} in a value is the "
    "place where the source before it has ended (docs/hybrid.md).",
)
HYBRID_OPTIONS: tuple[Option[Any], ...] = (SWITCH_OVERLAP, READ_UNTIL, HYBRID)
