"""The backlog as numbers for progress events and offsets. Pure."""

from __future__ import annotations

from ..enumerator import Backlog


def backlog_numbers(backlog: Backlog) -> dict[str, int | str]:
    """The known numbers of a backlog, by name."""
    amounts = {"backlogRows": backlog.rows, "backlogBytes": backlog.bytes}
    numbers: dict[str, int | str] = {name: value for name, value in amounts.items() if value is not None}
    if backlog.splits or numbers:
        numbers["backlogSplits"] = backlog.splits
    if backlog.oldest_event_time is not None:
        numbers["backlogOldestEventTime"] = backlog.oldest_event_time.isoformat()
    return numbers
