"""Failures: counts failed reads of each split of one document, across attempts and restarts."""

from __future__ import annotations

from collections import Counter

import msgspec

from . import file_names
from .file_names import CheckpointName
from .store import Store
from .stored_lineage import StoredLineage


class FailureRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One failure; only its existence counts, its fields are for people."""

    split: str
    error: str
    subtask: int
    attempt: int
    host: str


class FailureLog:
    """The failures to read the splits of one document."""

    def __init__(self, store: Store, lineage: str, name: CheckpointName) -> None:
        self._store = store
        self._lineage = lineage
        self._name = name
        self._counts: Counter[str] = Counter()
        for failed, digest, number in StoredLineage(store, lineage).failures():
            if failed == name:
                self._counts[digest] = max(self._counts[digest], number)

    def count(self, split_id: str) -> int:
        return self._counts[file_names.split_digest(split_id)]

    def add(self, record: FailureRecord) -> int:
        """Record a failure, and return the number of failures of its split."""
        digest = file_names.split_digest(record.split)
        data = msgspec.json.encode(record, order="sorted")
        while True:
            self._counts[digest] += 1
            number = self._counts[digest]
            file = file_names.failure_file(self._lineage, self._name, record.split, number)
            if self._store.create(file, data, exclusive=True):
                return number
