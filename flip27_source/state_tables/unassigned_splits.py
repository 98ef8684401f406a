"""Splits that an enumerator has found and not assigned, read from its stored state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..discovery import DiscoveringEnumerator
from ..enumerator import SplitEnumerator
from ..enumerator_mixins import HoldsSplits
from ..errors import CorruptStateError, IncompatibleStateError, MissingStateError, RegistryError
from ..registry import find_enumerator
from ..snapshots.codec import SnapshotCodec
from ..snapshots.documents import CheckpointDocument
from ..snapshots.file_names import CheckpointName
from .history import History, StoredSplit, unassigned_pages


def class_of(document: CheckpointDocument) -> type[SplitEnumerator[Any]] | None:
    """The enumerator's class; None if it cannot be found here by its name."""
    try:
        return find_enumerator(document.source.enumerator)
    except RegistryError:
        return None


def unassigned_splits(
    history: History, name: CheckpointName, document: CheckpointDocument
) -> Iterator[StoredSplit]:
    """The splits that the enumerator holds, if the form of its state is known here or to its class."""
    for page in unassigned_pages(document):
        if page.splits in document.raw.segments:
            yield from (history.splits(name, document, page.splits) or [])[page.taken :]
    yield from unassigned_by_class(history, document)


def unassigned_by_class(history: History, document: CheckpointDocument) -> Iterator[StoredSplit]:
    """The splits in a state that only the enumerator's class can interpret."""
    kind: Any = class_of(document)
    # The pages of a DiscoveringEnumerator are read by ``unassigned_pages``, and its state may be large.
    if kind is None or issubclass(kind, DiscoveringEnumerator) or not issubclass(kind, HoldsSplits):
        return
    codec = SnapshotCodec(kind)
    try:
        state = codec.decode_state(document, history.stored.segment_loader(document))
    except (CorruptStateError, IncompatibleStateError, MissingStateError):
        return
    for split in kind.splits_in(state):
        yield StoredSplit.of(msgspec.Raw(codec.encode_split(split)))
