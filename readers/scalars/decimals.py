"""Converts texts to decimals as Java's BigDecimal parses them and Spark rounds them; all readers use it.

What must not live here: whole columns of decimals, which are in ``texts``.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal

import pyarrow as pa

_TEXT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?(\d+))?")
_MOST_EXPONENT_DIGITS = 4
_BEYOND_ALL_SCALES = 80
_MANY_DIGITS = Context(prec=200, rounding=ROUND_HALF_UP)


def decimal_of(text: str, kind: pa.DataType) -> Decimal | None:
    """The number rounded half up to the scale of ``kind``; None if it is invalid or does not fit.

    An exponent of more than four digits is invalid: Java computes for hours or fails, depending on the
    exponent.
    """
    exact = exact_decimal(text)
    if exact is None or (exact and exact.adjusted() > _BEYOND_ALL_SCALES):
        return None
    if not exact or exact.adjusted() < -_BEYOND_ALL_SCALES:
        return Decimal(0)
    number = exact.quantize(Decimal(1).scaleb(-kind.scale), context=_MANY_DIGITS)
    return number if len(number.as_tuple().digits) <= kind.precision else None


def exact_decimal(text: str) -> Decimal | None:
    """The exact number; None if the text is not a number."""
    found = _TEXT.fullmatch(text)
    if found is None or len(found[1] or "") > _MOST_EXPONENT_DIGITS:
        return None
    return Decimal(text)
