"""The basis of parsers of columns of texts. Texts that do not fit the type of the column are errors.

What must not live here: the meaning of the texts, which belongs to ``values``, ``number_texts``,
``date_times`` and ``array_texts``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from flip27_source.readers.changes.rows import placed
from flip27_source.readers.scalars.ordinary_texts import Spelling, read_texts
from flip27_source.readers.scalars.text_bytes import Bools

Parse: TypeAlias = Callable[[pa.Array], pa.Array]
"""Converts texts without nulls to values without nulls. Raises UnfitError."""


class UnfitError(Exception):
    """The target cannot hold a value.

    Attributes:
        remedy: what the user can do; None if the remedy is the type string for the column.
    """

    def __init__(self, text: str, reason: str, *, remedy: str | None = None) -> None:
        super().__init__(text, reason)
        self.text = text
        self.reason = reason
        self.remedy = remedy


def refuse(texts: pa.Array, bad: Bools, reason: str, *, remedy: str | None = None) -> None:
    """Raise UnfitError for the first text that ``bad`` marks, if there is one."""
    if bad.any():
        row = int(bad.argmax())
        value: bytes = texts[row : row + 1].view(pa.binary())[0].as_py()
        raise UnfitError(value.decode("utf-8", "replace"), reason, remedy=remedy)


def parse_present(texts: pa.Array, parse: Parse, kind: pa.DataType) -> pa.Array:
    """The values of those texts that are not null; null for the others."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), kind)
    if not texts.null_count:
        return parse(texts)
    return placed(parse(texts.drop_null()), np.asarray(texts.is_valid()))


def parser(
    kind: pa.DataType,
    *,
    ordinary: str,
    fast: Parse,
    slow: Callable[[str], Any],
    suits: Callable[[pa.Array], bool] = lambda _: True,
) -> Parse:
    """The parser of a type whose texts are mostly ordinary.

    Args:
        ordinary: pattern of texts that ``fast`` parses together, unless it raises pa.ArrowInvalid.
        slow: parses one text to an object that ``pa.array`` accepts for ``kind``; raises UnfitError.
        suits: false for a column that ``fast`` would parse to wrong values without an error.
    """
    spelling = Spelling(pattern=ordinary, read=fast, suits=suits)
    return lambda texts: read_texts(texts, [spelling], slow, kind)
