"""Makes JSON objects of columns of JSON texts, without a Python value for each row. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.readers.scalars.text_bytes import Bools, bytes_of

_QUOTE, _BACKSLASH, _FIRST_PLAIN = ord('"'), ord("\\"), 0x20


@dataclass(frozen=True, slots=True)
class JsonTexts:
    """A JSON value for each row.

    Attributes:
        texts: a string array; null stands for JSON's null.
        is_string: the texts are the contents of JSON strings, without their quotes.
    """

    texts: pa.Array
    is_string: bool = False

    def complete(self) -> pa.Array:
        """The complete JSON texts: strings have their quotes, and nulls are ``null``."""
        texts = joined('"', self.texts, '"') if self.is_string else self.texts
        return pc.fill_null(texts, "null") if texts.null_count else texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of an object.

    Attributes:
        omitted: rows whose object does not have the member; None if all have it.
    """

    name: str
    values: JsonTexts
    omitted: Bools | None = None


def json_strings(texts: pa.Array) -> JsonTexts:
    return JsonTexts(_escaped(texts), is_string=True)


def quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def objects(members: Sequence[Member], rows: int) -> pa.Array:
    """A JSON object with these members for each row."""
    if not members:
        return pa.repeat(pa.scalar("{}"), rows)
    if any(member.omitted is not None for member in members):
        return _objects_with_gaps(members)
    parts: list[str | pa.Array] = []
    before = "{"
    for member in members:
        before += f"{quoted(member.name)}:"
        if member.values.is_string and not member.values.texts.null_count:
            parts += [before + '"', member.values.texts]
            before = '",'
        else:
            parts += [before, member.values.complete()]
            before = ","
    return joined(*parts, before[:-1] + "}")


def joined(*parts: str | pa.Array) -> pa.Array:
    """The concatenated parts of each row; null where a part is null."""
    # Fewer parts are faster.
    grouped = groupby(parts, key=lambda part: isinstance(part, str))
    merged = [part for is_text, run in grouped for part in (["".join(run)] if is_text else run)]
    return pc.binary_join_element_wise(*merged, "")


def _objects_with_gaps(members: Sequence[Member]) -> pa.Array:
    parts = []
    for member in members:
        part = joined(f",{quoted(member.name)}:", member.values.complete())
        parts.append(part if member.omitted is None else pc.if_else(pa.array(member.omitted), "", part))
    # Replace the comma before the first member with the opening brace.
    return joined(pc.binary_replace_slice(joined(*parts), 0, 1, "{"), "}")


def _escaped(texts: pa.Array) -> pa.Array:
    content = bytes_of(texts).content
    is_special = (content < _FIRST_PLAIN) | (content == _QUOTE) | (content == _BACKSLASH)
    if not is_special.any():
        return texts
    present = set(np.unique(content[is_special]).tolist())
    # Replace backslashes first, because the replacements of the other characters contain backslashes.
    for byte in sorted(present, key=lambda byte: byte != _BACKSLASH):
        texts = pc.replace_substring(texts, chr(byte), quoted(chr(byte))[1:-1])
    return texts
