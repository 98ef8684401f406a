"""Quarantined records of Kafka, as columns of the view ``quarantine``; the splits are JSON here."""

from __future__ import annotations

from typing import Any

import msgspec

from ..values.stored_json import decode_json
from ..values.times import datetime_or_none
from .history import StoredSplit

RECORD_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")


class _Record(msgspec.Struct):
    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None


def record_columns(split: StoredSplit) -> dict[str, Any]:
    """The columns of the record that a split keeps; None in each if the split keeps none.

    ``timestamp`` is also None if its year is not in 1 to 9999.
    """
    nothing = dict.fromkeys(RECORD_COLUMNS)
    text = split.fields.get("record")
    topic, _, place = split.split_id.rpartition("/")
    partition, _, offset = place.partition("@")
    if not (isinstance(text, str) and topic and partition.isdigit() and offset.isdigit()):
        return nothing
    try:
        record = decode_json(text.encode(), _Record)
    except msgspec.MsgspecError:
        return nothing
    return {
        "topic": topic,
        "partition": int(partition),
        "offset": int(offset),
        "timestamp": datetime_or_none(record.timestamp_ms),
        "key": record.key,
        "value": record.value,
    }
