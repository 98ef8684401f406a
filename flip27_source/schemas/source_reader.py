"""The reader of a source whose user names none: that of its state, or the one that the enumerator chooses.

Called before a start, in a planning process. Without a ``stateLocation`` the reader is chosen at each start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..enumerator import SplitEnumerator
from ..errors import CorruptStateError
from ..options import Options
from ..snapshots import file_names
from ..snapshots.documents import SourceIdentity, decode_source
from ..snapshots.locations import lineages_in
from ..snapshots.source_identity import ANY_READER
from ..snapshots.store import open_store
from ..source import chosen_enumerator, named_reader, uid_of
from ..source_checks import ChoosesReader
from ..source_options import CORE_OPTIONS, STATE_LOCATION


def reader_by_names(
    raw_options: Mapping[str, str], enumerator: type[SplitEnumerator[Any]] | None = None
) -> str | None:
    """The reader for ``Source.resolve``; None if the user names one, or the enumerator does not choose.

    Raises:
        OptionError: the user has to set the option ``reader``.
        Flip27Error: the source or the state location cannot be read.
    """
    kind, name = chosen_enumerator(raw_options, enumerator)
    if named_reader(raw_options, kind) is not None or not issubclass(kind, ChoosesReader):
        return None
    options = Options.parse(raw_options, (*CORE_OPTIONS, *kind.options), knows_all=False)
    before = {source.reader for source in stored_sources(options, uid_of(options, name))} - {ANY_READER}
    # Several queries with different readers may have used the state location.
    return before.pop() if len(before) == 1 else kind.choose_reader(options)


def stored_sources(options: Options, uid: str) -> list[SourceIdentity]:
    """The sources with this uid that have a state in the ``stateLocation``, one for each query.

    Raises:
        StateError: the state location cannot be read.
    """
    location = options[STATE_LOCATION]
    if location is None:
        return []
    store = open_store(location, options.with_prefix("storage."))
    beginning = file_names.lineage_name(uid, "")
    names = [name for name in store.list("") if name.startswith(beginning)]
    sources = []
    for lineage in lineages_in(store, names):
        file = file_names.source_file(lineage)
        try:
            sources.append(decode_source(store.read(file)))
        except msgspec.MsgspecError as error:
            raise CorruptStateError(
                f"{file} in {store.location} cannot be read: {error}",
                remedy="restore the file from a backup of the state location",
            ) from error
    return [source for source in sources if source.uid == uid]
