"""CsvHeaders: the CSV files of a batch in groups of one header, or of as many columns.

Spark takes the names of the columns from the header of one file, and matches the columns of all files by
position. So files with different headers are read separately. Without headers Spark takes the number of
columns from one line of one file, so files of different numbers are looked at separately to infer a schema.
What must not live here: Spark.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SplitReadError
from flip27_source.options import Options
from flip27_source.readers.files.input import open_file, reading

from .options import NativeOptions, kind_of

_THREADS = 16
_PIECE_BYTES = 1 << 16
_MOST_BYTES = 1 << 20
_LINE = re.compile(rb"([^\r\n]*)[\r\n]")


class CsvHeaders:
    """The first lines of files, each read once.

    Attributes:
        name_columns: whether they are headers.
    """

    @classmethod
    def of(cls, format_name: str, options: NativeOptions) -> CsvHeaders | None:
        """None if the files are not CSV."""
        given = {name.lower(): text for name, text in options.spark.items()}
        return cls(given, options.own) if kind_of(format_name) == "csv" else None

    def __init__(self, options: Mapping[str, str], own: Options) -> None:
        """``options``: Spark's, with names in lower case; ``own``: ``storage.*``."""
        self._own = own
        self.name_columns = options.get("header", "").lower() == "true"
        separator = options.get("sep", options.get("delimiter", ",")).replace("\\t", "\t")
        self._separator = separator.encode()
        quote = re.escape(options.get("quote", '"').encode())
        self._quoted = re.compile(rb"%b(?:\\.|(?!%b).)*%b" % (quote, quote, quote)) if quote else None
        encoding = options.get("encoding", options.get("charset", "")).lower()
        self._has_lines = "linesep" not in options and not re.match("utf-?(16|32)", encoding)
        self._comment = options.get("comment", "").encode()
        multi_line = options.get("multiline", "false").lower() == "true"
        self._quote = options.get("quote", '"').encode() if multi_line else b""
        self._known: dict[str, Hashable] = {}

    def groups(self, files: Sequence[FileSplit]) -> list[list[FileSplit]]:
        """The files by their first lines; a file whose first line is not found is a group of its own."""
        new = [file for file in files if file.path not in self._known]
        with ThreadPoolExecutor(_THREADS) as pool:
            self._known |= zip([file.path for file in new], pool.map(self._key, new), strict=True)
        groups: dict[Hashable, list[FileSplit]] = {}
        for file in files:
            groups.setdefault(self._known[file.path], []).append(file)
        return list(groups.values())

    def _key(self, file: FileSplit) -> Hashable:
        """The bytes of the header line, or the numbers of separators in the first line, or the path."""
        line = None
        if self._has_lines:
            try:
                line = self._line(file)
            except SplitReadError:  # Spark may know the compression, and otherwise says what is wrong
                return file.path
        is_open = line is not None and self._quote and line.count(self._quote) % 2
        if line is None or is_open or (not self.name_columns and self._separator.startswith(b"\\")):
            return file.path
        if self.name_columns:
            return line
        # Which separators are quoted depends on more options; groups that are too small do no harm.
        unquoted = line if self._quoted is None else self._quoted.sub(b"", line)
        return line.count(self._separator), unquoted.count(self._separator)

    def _line(self, file: FileSplit) -> bytes | None:
        """The first line that is neither blank nor a comment; None if it is too long."""
        text, at = b"", 0
        with reading(file.path, self._own), open_file(file, self._own) as stream:
            while len(text) < _MOST_BYTES:
                piece = stream.read(_PIECE_BYTES)
                text += piece or b"\n"
                while (found := _LINE.match(text, at)) is not None:
                    at, line = found.end(), found[1]
                    if line.strip() and not (self._comment and line.startswith(self._comment)):
                        return line
                if not piece:
                    return b""
        return None
