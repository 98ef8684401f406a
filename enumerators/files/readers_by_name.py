"""Which reader reads a file, by the end of its name. Pure: no I/O.

Compressed files of lines have a second ending: ``orders.json.gz``. A name that means no reader is refused,
rather than read by a guess: CSV files that are read as JSON would be rows of null.
"""

from __future__ import annotations

from collections.abc import Iterable

from flip27_source.errors import OptionError
from flip27_source.file_systems.paths import redacted, shown_path

_READERS = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".txt": "text",
    ".log": "text",
    ".parquet": "parquet",
    ".parq": "parquet",
    ".orc": "orc",
    ".avro": "avro",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}
COMPRESSED = {".gz": "gzip", ".gzip": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zstd": "zstd"}
"""Extensions of files that are decompressed, as by Spark 4.3."""

_COMPRESSIBLE = ("json", "csv", "text")
_TO_SET = "json, csv, text, parquet, orc, avro, arrow or binary"


def reader_for(path: str) -> str | None:
    """The reader whose files have such names, in any case; None if the name does not tell."""
    name = path.rpartition("/")[2].lower()
    plain = next((name.removesuffix(end) for end in COMPRESSED if name.endswith(end)), name)
    stem, dot, ending = plain.rpartition(".")
    reader = _READERS.get(dot + ending) if stem else None
    return reader if plain == name or reader in _COMPRESSIBLE else None


def reader_for_all(paths: Iterable[str], where: str) -> str:
    """The reader of all these files.

    Args:
        where: the path of the source, for errors.

    Raises:
        OptionError: there is no file, the name of a file does not tell its reader, or two names differ.
    """
    first, reader = None, None
    for path in paths:
        other = reader_for(path)
        if other is None:
            known = reader or next(filter(None, map(reader_for, paths)), None)
            raise OptionError(
                f"option reader is not set, and the name of {shown_path(path)} does not tell it",
                remedy=f'add .option("reader", ...): {_TO_SET}'
                + ("" if known is None else f"; or leave the file out with {_only(known)}"),
            )
        if reader is not None and other != reader:
            raise OptionError(
                f"option reader is not set, and files in {redacted(where)} have names of different kinds: "
                f"{reader} for {shown_path(str(first))}, {other} for {shown_path(path)}",
                remedy=f"read one kind with {_only(reader)}, and the other in a query of its own; or set "
                f'.option("reader", "{reader}") to read all files with it',
            )
        first, reader = path, other
    if reader is None:
        raise OptionError(
            f"option reader is not set, and there is no file in {redacted(where)} yet whose name tells it",
            remedy=f'add .option("reader", ...): {_TO_SET}; or start when the first file exists',
        )
    return reader


def check_reader(paths: Iterable[str], reader: str) -> None:
    """Check new files of a query whose reader was chosen by the names of its first files.

    Raises:
        OptionError: the name of a file does not tell this reader.
    """
    for path in paths:
        other = reader_for(path)
        if other != reader:
            tells = "does not tell its reader" if other is None else f"tells the reader {other}"
            raise OptionError(
                f"the name of {shown_path(path)} {tells}, and this query reads with {reader}, as the "
                "names of its first files told",
                remedy=f"move the file out of the path; or leave such files out with {_only(reader)}; or set "
                f'.option("reader", "{reader}") to read them with it. Then restart the query: no row is lost',
            )


def _only(reader: str) -> str:
    ending = next(ending for ending, name in _READERS.items() if name == reader)
    return f'.option("pathGlobFilter", "*{ending}*")'
