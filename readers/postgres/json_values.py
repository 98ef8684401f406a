"""Converts PostgreSQL's texts to the JSON values of ``changeFormat=envelope``; nothing is rounded.

Integers and floats are JSON numbers. Values of numeric, NaN and infinity, bytes (in Base64), and the texts of
all other types, including json, are JSON strings. Rows are converted as columns of texts, without a Python
value for each row.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.postgres.column_types import PgType
from flip27_source.readers.changes.json_objects import JsonTexts, joined, json_strings
from flip27_source.readers.postgres.array_texts import element_lists, nested_lists
from flip27_source.readers.postgres.parsers import UnfitError, parse_present
from flip27_source.readers.postgres.values import parse_hex
from flip27_source.readers.scalars.text_bytes import bounds_of, bytes_of

Encode: TypeAlias = Callable[[pa.Array], JsonTexts]
"""Converts texts, some of which may be null, to JSON values. Raises UnfitError."""


def envelope_encoder(type: PgType) -> Encode:
    encode = SCALARS.get(type.name, json_strings)
    return array_encoder(encode, type.delimiter) if type.is_array else encode


def array_encoder(encode: Encode, delimiter: str) -> Encode:
    """The encoder for arrays, with ``encode`` for their elements.

    Arrays may have any number of dimensions; lower bounds are dropped.
    """

    def arrays(texts: pa.Array) -> pa.Array:
        try:
            lists = element_lists(texts, dimensions=1, delimiter=delimiter)
        except UnfitError:
            return _nested(nested_lists(texts, delimiter=delimiter), encode)
        bounds = pa.array(bounds_of(lists.value_lengths()))
        elements = encode(lists.flatten()).complete()
        return joined("[", pc.binary_join(pa.ListArray.from_arrays(bounds, elements), ","), "]")

    return lambda texts: JsonTexts(parse_present(texts, arrays, pa.string()))


def one_by_one(write: Callable[[str], str], *, is_string: bool) -> Encode:
    """The encoder for a rare type: ``write`` returns the JSON value of one text, or a string's content."""

    def written(texts: pa.Array) -> pa.Array:
        return pa.array([write(text) for text in texts.to_pylist()], pa.string())

    return lambda texts: JsonTexts(parse_present(texts, written, pa.string()), is_string=is_string)


def _base64_of_hex(texts: pa.Array) -> JsonTexts:
    """The bytes of a bytea in Base64."""

    def encoded(texts: pa.Array) -> pa.Array:
        return pa.array([b64encode(value).decode() for value in parse_hex(texts).to_pylist()], pa.string())

    return JsonTexts(parse_present(texts, encoded, pa.string()), is_string=True)


def booleans(true: str) -> Encode:
    """The encoder for booleans of a type whose text for true is ``true``."""
    return lambda texts: JsonTexts(pc.if_else(pc.equal(texts, true), "true", "false"))


def _floats(texts: pa.Array) -> JsonTexts:
    content = bytes_of(texts).content
    if ((content == ord("N")) | (content == ord("I"))).any():
        is_odd = pc.match_substring_regex(texts, "[NI]")
        texts = pc.if_else(is_odd, joined('"', texts, '"'), texts)
    return JsonTexts(texts)


def _nested(lists: list[Any], encode: Encode) -> pa.Array:
    leaves = pa.array(list(_leaves(lists)), pa.string())
    written = iter(encode(leaves).complete().to_pylist())
    return pa.array([_written(value, written) for value in lists], pa.string())


def _leaves(value: Any) -> Iterator[str | None]:
    if not isinstance(value, list):
        yield value
        return
    for element in value:
        yield from _leaves(element)


def _written(value: Any, leaves: Iterator[str]) -> str:
    if not isinstance(value, list):
        return next(leaves)
    return f"[{','.join(_written(element, leaves) for element in value)}]"


SCALARS: dict[str, Encode] = {
    "bool": booleans("t"),
    **dict.fromkeys(("int2", "int4", "int8", "oid"), JsonTexts),  # the texts already are JSON
    **dict.fromkeys(("float4", "float8"), _floats),
    "bytea": _base64_of_hex,
}
"""Encoders by the name of the type; all other types are strings."""
