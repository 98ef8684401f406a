"""What is looked at before a query of files starts: its path, and the reader that the names of files tell."""

from __future__ import annotations

from itertools import islice

from flip27_source.enumerators.files import options as opts
from flip27_source.enumerators.files.cleaning import Cleaning
from flip27_source.enumerators.files.listing.choice import Listing
from flip27_source.enumerators.files.readers_by_name import reader_for_all
from flip27_source.enumerators.files.search import FileSearch
from flip27_source.options import Options

_MOST_NAMES = 10_000
"""Discovery compares the names of all files, so the first ones are enough to choose a reader."""


def reader_of_files(options: Options) -> str:
    """The reader that the names of the first files tell (``ChoosesReader``)."""
    listing = Listing.of(options)
    listing.lister.check_root()
    paths = (path for path, _ in islice(listing.files(), _MOST_NAMES))
    return reader_for_all(paths, ", ".join(opts.paths_of(options)))


def check_paths(options: Options) -> None:
    """Refuse options that contradict each other, and paths that do not exist (``ChecksBeforeStart``).

    A path in an object store has vanished when all its files were read and removed: the start refuses it if
    the query has no state yet.
    """
    Cleaning(options, opts.paths_of(options))
    search = FileSearch(options, may_be_emptied=True, keeps_etag=False)
    search.listing.lister.check_root()
