"""Splits that an enumerator has found and not assigned, or that it knows, read from its stored state."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from ..discovery import DiscoveringEnumerator
from ..enumerator import SplitEnumerator
from ..enumerator_mixins import ForgetsSplits, HoldsSplits
from ..errors import CorruptStateError, IncompatibleStateError, MissingStateError, RegistryError
from ..options import Options
from ..reader import SplitReader
from ..snapshots.codec import SnapshotCodec
from ..snapshots.documents import CheckpointDocument
from ..snapshots.file_names import CheckpointName
from ..source import declared_options, reader_class, stored_enumerator
from .history import History, StoredSplit, unassigned_pages


def class_of(document: CheckpointDocument) -> type[SplitEnumerator[Any]] | None:
    """The enumerator's class; None if it cannot be found here by its name."""
    try:
        return stored_enumerator(document.source.enumerator, document.source.start_options)
    except RegistryError:
        return None


def reader_of(document: CheckpointDocument) -> type[SplitReader[Any]] | None:
    """The reader's class; None if it cannot be found here by its name."""
    try:
        return reader_class(class_of(document) or SplitEnumerator, document.source.reader)
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
    with contextlib.suppress(CorruptStateError, IncompatibleStateError, MissingStateError):
        state = codec.decode_state(document, history.stored.segment_loader(document))
        for split in kind.splits_in(state):
            yield StoredSplit.of(msgspec.Raw(codec.encode_split(split)))


def known_splits(
    history: History, document: CheckpointDocument, splits: Collection[StoredSplit]
) -> Iterator[str]:
    """The ids of those of the splits that the enumerator is certain to know, if its class is known here."""
    kind: Any = class_of(document)
    if not splits or kind is None or not issubclass(kind, ForgetsSplits):
        return
    codec, version = SnapshotCodec(kind), document.source.split_version
    with contextlib.suppress(CorruptStateError, IncompatibleStateError, MissingStateError):
        state = codec.decode_state(document, history.stored.segment_loader(document))
        decoded = [codec.decode_split(version, msgspec.Raw(split.text.encode())) for split in splits]
        found = kind.found_again(state, decoded, options=stored_options(document))
        for stored, split in zip(splits, decoded, strict=True):
            if split.split_id not in found:
                yield stored.split_id


def stored_options(document: CheckpointDocument) -> Options:
    """The options that the state has; the others have their defaults."""
    kind, reader = class_of(document) or SplitEnumerator, reader_of(document) or SplitReader
    declared = declared_options(kind, reader)
    names = {option.name for option in declared}
    stored = document.source.start_options
    return Options.parse({name: text for name, text in stored.items() if name in names}, declared)
