"""Converts PostgreSQL's texts to the JSON that Debezium's connector and Kafka's JSON converter write.

The values are those of Debezium 3.6 with its defaults: ``time.precision.mode=adaptive``,
``binary.handling.mode=bytes``, ``hstore.handling.mode=json``. Values of types that Debezium leaves out are
strings.
"""

from __future__ import annotations

import re
import struct
from base64 import b64encode
from collections.abc import Callable
from decimal import Context, Decimal
from functools import partial
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.postgres.column_types import PgType, numeric_digits
from flip27_source.readers.postgres.debezium_times import time_encoder
from flip27_source.readers.postgres.json_texts import JsonTexts, json_strings, quoted
from flip27_source.readers.postgres.json_values import SCALARS, Encode, array_encoder, booleans, one_by_one
from flip27_source.readers.postgres.parsers import UnfitError
from flip27_source.readers.scalars.text_bytes import bytes_of

PLACEHOLDER = "__debezium_unavailable_value"
"""The placeholder for a TOAST value that did not change and is therefore not in the log."""

_SPECIAL = {"NaN": "NAN", "Infinity": "POSITIVE_INFINITY", "-Infinity": "NEGATIVE_INFINITY"}
_ENOUGH = Context(prec=200_000)  # a numeric has up to 131,072 digits before the point and 16,383 after it
_MONEY_SCALE = 2
_POINT = re.compile(r"\(([^,]+),([^,]+)\)")
_HSTORE = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)(?:, )?', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_TEXT_ARRAYS = frozenset({"text", "varchar", "bpchar", "json", "jsonb"})


def debezium_encoder(type: PgType, *, decimal_handling: str, interval_handling: str) -> Encode:
    """The encoder for the values of a type.

    Args:
        decimal_handling: ``string`` or ``precise``.
        interval_handling: ``numeric`` or ``string``.
    """
    encode = _encoder(type, decimal_handling == "precise", interval_handling)
    return array_encoder(encode, type.delimiter) if type.is_array else encode


def placeholder(type: PgType) -> str:
    """The JSON value for an unchanged TOAST value of a type."""
    raw = PLACEHOLDER.encode()
    if not type.is_array:
        return quoted(b64encode(raw).decode() if type.name == "bytea" else PLACEHOLDER)
    if type.name in _TEXT_ARRAYS:
        return f"[{quoted(PLACEHOLDER)}]"
    if type.name == "bytea":
        return f"[{quoted(b64encode(raw).decode())}]"
    if type.name == "uuid":
        return f"[{quoted(str(_named_uuid(raw)))}]"
    if type.name in ("int4", "int8", "date"):
        return msgspec.json.encode(list(raw)).decode()
    return quoted(PLACEHOLDER)


def _encoder(type: PgType, is_precise: bool, interval_handling: str) -> Encode:
    encode = time_encoder(type, interval_handling=interval_handling) or SCALARS.get(type.name)
    if encode is not None:
        return encode
    if type.name == "numeric":
        return _precise(type) if is_precise else _decimal_strings
    if type.name in ("bit", "varbit"):
        return one_by_one(_bits, is_string=True) if type.modifier != 1 else booleans("1")
    # The types of extensions can be in any schema.
    name = type.name.rpartition(".")[2]
    if name in ("vector", "halfvec"):
        return JsonTexts
    rare: dict[str, tuple[Callable[[str], str], bool]] = {
        "money": (partial(_money, is_precise), True),
        "point": (_point, False),
        "hstore": (_hstore, True),
    }
    return one_by_one(rare[name][0], is_string=rare[name][1]) if name in rare else json_strings


def _decimal_strings(texts: pa.Array) -> JsonTexts:
    if (bytes_of(texts).content > ord("9")).any():
        names = [pa.array(names) for names in zip(*_SPECIAL.items(), strict=True)]
        special = names[1].take(pc.index_in(texts, names[0]))
        texts = pc.coalesce(special, texts)
    return JsonTexts(texts, is_string=True)


def _precise(type: PgType) -> Encode:
    digits = numeric_digits(type.modifier)
    if digits is None:
        return one_by_one(_variable_scale, is_string=False)
    return one_by_one(partial(_unscaled, digits[1]), is_string=True)


def _unscaled(scale: int, text: str) -> str:
    """The number without its decimal point, as the bytes of an integer in Base64."""
    number = int(_finite(text).scaleb(scale, _ENOUGH))
    # The least number of bytes that can hold the number and its sign.
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return b64encode(number.to_bytes(size, "big", signed=True)).decode()


def _variable_scale(text: str) -> str:
    number = _finite(text).normalize(_ENOUGH)
    scale = max(0, -int(number.as_tuple().exponent))
    return f'{{"scale":{scale},"value":"{_unscaled(scale, format(number, "f"))}"}}'


def _finite(text: str) -> Decimal:
    if text in _SPECIAL:
        remedy = "set decimalHandlingMode=string"
        raise UnfitError(text, "decimalHandlingMode=precise has no such value", remedy=remedy)
    return Decimal(text)


def _money(is_precise: bool, text: str) -> str:
    number = text.strip("()-")
    number = (number if number[:1].isdigit() else number[1:]).replace(",", "")
    if not re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", number):
        remedy = "set lc_monetary of the database to C or en_US, or changeFormat=envelope"
        raise UnfitError(text, "it is not an amount as lc_monetary=C writes it", remedy=remedy)
    signed = f"-{number}" if text[0] in "(-" else number
    return _unscaled(_MONEY_SCALE, signed) if is_precise else signed


def _bits(text: str) -> str:
    """The bits as bytes in Base64, the least significant byte first, without zero bytes at the end."""
    number = int(text or "0", 2)
    return b64encode(number.to_bytes((number.bit_length() + 7) // 8, "little")).decode()


def _point(text: str) -> str:
    point = _POINT.fullmatch(text)
    if point is None:
        raise UnfitError(text, "it is not a point")
    wkb = b64encode(struct.pack("<BIdd", 1, 1, float(point[1]), float(point[2]))).decode()
    x, y = (number if number[-1].isdigit() else quoted(number) for number in point.groups())
    return f'{{"x":{x},"y":{y},"wkb":"{wkb}","srid":null}}'


def _hstore(text: str) -> str:
    """The pairs as a JSON object, escaped as the content of a JSON string."""
    pairs: dict[str, str | None] = {}
    at = 0
    while at < len(text):
        pair = _HSTORE.match(text, at)
        if pair is None:
            raise UnfitError(text, "it is not an hstore")
        value = None if pair[2] is None else _ESCAPED.sub(r"\1", pair[2])
        pairs[_ESCAPED.sub(r"\1", pair[1])] = value
        at = pair.end()
    return quoted(msgspec.json.encode(pairs).decode())[1:-1]


def _named_uuid(name: bytes) -> UUID:
    """The result of Java's ``UUID.nameUUIDFromBytes``: the MD5 digest as a UUID of version 3."""
    import hashlib

    return UUID(bytes=hashlib.md5(name, usedforsecurity=False).digest(), version=3)
