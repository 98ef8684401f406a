"""Looks into sources themselves: one discovery on demand, of which nothing is kept (``--look``)."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import AccessError, Flip27Error, OptionError, kept_text
from flip27_source.file_systems.secrets_in_texts import Hidden, in_bytes
from flip27_source.readers.files.input import open_raw
from flip27_source.snapshots.codec import SnapshotCodec
from flip27_source.source import Source
from flip27_source.source_options import ENUMERATOR, PATH, READER, STATE_LOCATION
from flip27_source.source_progress import LooksIntoSource, ProgressTable
from flip27_source.state_tables.history import History

from ..check.event_time import new_enumerator
from ..check.time_limits import within
from ..commands import OptionGroup, option, source_options

FIRST_BYTES, _MOST_READ = 256, 4096
"""Of a quarantined file: what is kept, and what is read, for secrets that its end would cut."""
_MOST_FIRST_BYTES = 20
LOOK_S = 60.0
"""How long a look may take; what has not answered by then is left alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look has found.

    Attributes:
        at: when it began. took_s: how long it took.
        tables: what waits. error, remedy: why that is not known, and what to do.
        first_bytes: the beginning of the newest quarantined files, by split id; of those that can be read.
    """

    at: dt.datetime
    took_s: float
    tables: Sequence[ProgressTable] = ()
    error: str | None = None
    remedy: str | None = None
    first_bytes: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looking(OptionGroup):
    """Whether to look into the source, and the options that the state does not have."""

    look: Annotated[
        bool,
        option(
            "--look",
            "Ask the source itself once what waits there. Nothing is written, and the query does not notice.",
        ),
    ] = False
    path: Annotated[str | None, option("--path", "With --look: the path of the source.")] = None
    given: Annotated[
        list[str] | None,
        option(
            "--option NAME=VALUE",
            "With --look: an option of the source that its state does not have, such as a server or a "
            "password's variable. Repeatable.",
        ),
    ] = None

    def options(self, storage: Sequence[str] | None) -> Mapping[str, str] | None:
        """The given options; None without --look.

        Raises:
            OptionError: there are options and no look.
        """
        given = source_options(self.given, list(storage or ()))
        path = {} if self.path is None else {PATH.name: self.path}
        if self.look:
            return given | path
        if self.given or path:
            raise OptionError("--path and --option are for a look", remedy="add --look")
        return None


def looked(history: History, given: Mapping[str, str], now: dt.datetime, limit_s: float = LOOK_S) -> Look:
    """One look into the source of a lineage, from its newest checkpoint; what goes wrong is a part of it.

    Args:
        given: the options that the state does not have.
    """
    began = time.monotonic()
    found: dict[str, Any]
    try:
        found = within(limit_s, lambda: _found(history, given), lambda: _late(limit_s))
    except Flip27Error as error:
        found = {"error": error.what, "remedy": error.remedy}
    except Exception as error:  # noqa: BLE001 - libraries of sources raise any error
        found = {"error": kept_text(error, Hidden(given).in_text)}
    return Look(at=now, took_s=time.monotonic() - began, **found)


def _first_bytes(
    splits: Sequence[FileSplit], source: Source, hide: Callable[[str], str]
) -> Iterator[tuple[str, bytes]]:
    for split in splits:
        # A file may be gone, or be another one by now.
        with suppress(Flip27Error, OSError), open_raw(split, source.options) as stream:
            stream.seek(split.start)
            yield split.split_id, in_bytes(stream.read(_MOST_READ), hide)[:FIRST_BYTES]


def _late(limit_s: float) -> AccessError:
    return AccessError(
        f"the source has not answered in {limit_s:g} s",
        remedy="check that this machine reaches it; flip27 check says more",
    )


def _found(history: History, given: Mapping[str, str]) -> dict[str, Any]:
    newest, identity = history.newest(), history.source()
    if newest is None or identity is None:
        said = "no checkpoint says what is known already"
        return {"tables": [ProgressTable(title="in the source", said=said)]}
    place = history.lineage.parent
    named = {ENUMERATOR.name: identity.enumerator, READER.name: identity.reader}
    at = {} if place is None else {STATE_LOCATION.name: place}
    source = Source.resolve({**at, **identity.start_options, **named, **given})
    codec = SnapshotCodec(source.enumerator_type, source.reader_type)
    document = newest[1]
    snapshot = codec.decode(document, history.stored.segment_loader(document), with_events=False)
    enumerator = new_enumerator(source, snapshot)
    try:
        aside = [item.split for item in snapshot.ledger.quarantined[-_MOST_FIRST_BYTES:]]
        files = [split for split in aside if isinstance(split, FileSplit)]
        first_bytes = dict(_first_bytes(files, source, Hidden(given).in_text))
        if isinstance(enumerator, LooksIntoSource):
            tables = tuple(enumerator.look(list(snapshot.ledger.live)))
        else:
            said = f"{identity.enumerator} cannot be looked into"
            tables = (ProgressTable(title="in the source", said=said),)
        return {"tables": tables, "first_bytes": first_bytes}
    finally:
        enumerator.close()
