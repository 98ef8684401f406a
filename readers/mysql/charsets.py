"""Decodes the texts of the log, equal to those that a SELECT would give.

Python decodes the sets of characters in which the two agree, which the tests compare; of sets with one byte
for each character, the server is asked for all characters.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.mysql.connection import Row

# There are more than a thousand collations, and one window of the log may have a single change.
COLLATIONS = (
    "SET STATEMENT group_concat_max_len = 1000000 FOR SELECT character_set_name, GROUP_CONCAT(id) "
    "FROM information_schema.collation_character_set_applicability GROUP BY character_set_name"
)

PYTHONS_NAMES = {
    "utf8mb3": "utf-8", "utf8mb4": "utf-8", "ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le",
    "utf32": "utf-32-be", "gbk": "gbk", "gb2312": "gb2312", "euckr": "cp949", "cp932": "cp932",
    # Almost equal: no column in these is read, but statements may be written in them.
    "big5": "big5", "sjis": "cp932", "ujis": "euc_jp", "eucjpms": "euc_jp", "binary": "utf-8",
}  # fmt: skip
_NOT_LIKE_ASCII = ("swe7", "ucs2", "utf16", "utf16le", "utf32")
_EACH_BYTE = f"SELECT CONVERT(_{{}} x'{bytes(range(256)).hex()}' USING utf8mb4)"


def _question_mark(error: UnicodeError) -> tuple[str, int]:
    """The server writes a question mark for two bytes that are no character."""
    assert isinstance(error, UnicodeDecodeError)
    return "?", min(error.start + 2, len(error.object))


codecs.register_error("flip27-mariadb", _question_mark)


class Charsets:
    """The sets of characters of a server.

    Args:
        collations: the rows of ``COLLATIONS``.
        query: runs a query on the server.

    Attributes:
        names: the set of each collation.
    """

    def __init__(self, collations: Iterable[Row], query: Callable[[str], list[Row]]) -> None:
        self.names = {int(number): str(name) for name, numbers in collations for number in numbers.split(",")}
        self._characters = cache(lambda name: str(query(_EACH_BYTE.format(name))[0][0]))

    def decode(self, text: bytes, collation: int) -> str:
        name = self.names.get(collation, "utf8mb4")
        if text.isascii() and name not in _NOT_LIKE_ASCII:
            return text.decode()
        if name in PYTHONS_NAMES:
            return text.decode(PYTHONS_NAMES[name], "flip27-mariadb")
        return codecs.charmap_decode(text, "strict", self._characters(name))[0]

    def texts(self, values: pa.BinaryArray, collation: int) -> pa.StringArray:
        """Many of them; each that is not ASCII is decoded once."""
        name = self.names.get(collation, "utf8mb4")
        if PYTHONS_NAMES.get(name) == "utf-8":
            return values.cast(pa.string())
        if name not in _NOT_LIKE_ASCII:
            found = values.view(pa.string())
            if pc.all(pc.string_is_ascii(found)).as_py() is not False:
                return found
        distinct = values.dictionary_encode()
        decoded = [self.decode(one, collation) for one in distinct.dictionary.to_pylist()]
        return pa.array(decoded, pa.string()).take(distinct.indices)
