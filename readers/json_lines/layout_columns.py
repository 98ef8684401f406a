"""The fastest path of the JSON reader: reads lines that share one layout as columns, without a parser.

Lines written by one program often differ only in their values. One search finds the ends of all names,
and the layout gives the position of each value relative to them. The reader then proves that the bytes
around the values equal those of a valid line, and that each value is valid for its type. It refuses a
block that it cannot prove. The results equal those of :mod:`pyarrow.json` for the same schema.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from flip27_source.readers.json_lines.layout import Layout, Path, layout_of, types_of_paths
from flip27_source.readers.json_lines.scalars import (
    NotProvedError,
    all_true,
    is_scalar,
    scalars_of,
    strings_of,
)
from flip27_source.readers.scalars.text_bytes import Bools, Bounds, Bytes, Positions, escaping

_SAMPLES = 7
_SCAN_BYTES = 1 << 20
_FEW_ESCAPES, _LEAST_BYTES_PER_ESCAPE = 1_000, 500
_QUOTE, _COLON, _BACKSLASH = b'":\\'
_N, _L = b"nl"


class LayoutColumns:
    """Reads blocks of lines to the columns of ``schema``."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._types = types_of_paths(schema)
        self.usable = all(_is_read(kind) for kind in self._types.values())
        """False if some column has a type that this reader does not support."""
        self._last_layout: Layout | None = None
        self.has_unknown = False
        """True if the last block read has fields without a column."""

    def read(self, data: bytes) -> list[pa.Array]:
        """The columns of a block of lines, each ending in a newline; strings may be invalid UTF-8.

        Raises:
            NotProvedError: another parser must read the block.
        """
        layout = self._usual_layout(data)
        values = _Values(data, layout)
        read = {scalar.path: values.column(number) for number, scalar in enumerate(layout.scalars)}
        unknown = read.keys() - self._types.keys()
        self.has_unknown = bool(unknown)
        try:
            for path in unknown:
                read[path].validate(full=True)  # values without a column are not checked later
        except pa.ArrowInvalid as error:
            raise NotProvedError(str(error)) from None
        return [self._column(field, (), read, values.rows) for field in self._schema]

    def _usual_layout(self, data: bytes) -> Layout:
        """The previous block's layout if some sampled line has it, else the most frequent layout."""
        layouts: Counter[Layout] = Counter()
        for number in range(_SAMPLES):
            start = data.rfind(b"\n", 0, len(data) * number // _SAMPLES) + 1
            layout = layout_of(data[start : data.index(b"\n", start)], self._types)
            if layout is not None and layout == self._last_layout:
                return layout
            if layout is not None:
                layouts[layout] += 1
        if not layouts:
            raise NotProvedError("no line of the sample has a layout")
        self._last_layout = layouts.most_common(1)[0][0]
        return self._last_layout

    def _column(self, field: pa.Field, parent: Path, read: dict[Path, pa.Array], rows: int) -> pa.Array:
        path = (*parent, field.name)
        if path in read:
            return read[path]
        if not any(known[: len(path)] == path for known in read):
            return pa.nulls(rows, field.type)
        fields = [field.type.field(number) for number in range(field.type.num_fields)]
        children = [self._column(inner, path, read, rows) for inner in fields]
        return pa.StructArray.from_arrays(children, fields=fields)


def _is_read(kind: pa.DataType) -> bool:
    return pt.is_string(kind) or is_scalar(kind) or (pt.is_struct(kind) and kind.num_fields > 0)


class _Values:
    """The values of a block; all bytes around them are proved to match the layout."""

    def __init__(self, data: bytes, layout: Layout) -> None:
        self._has_escapes = b"\\" in data
        name_ends = _name_ends(data, self._has_escapes)
        self.rows = len(name_ends) // layout.names
        if not self.rows or self.rows * layout.names != len(name_ends):
            raise NotProvedError("lines have different names")
        self._layout = layout
        self._width = 2 * len(layout.scalars) + 1
        bounds = _bounds(name_ends.reshape(self.rows, layout.names), layout, len(data))
        self._pieces = pa.Array.from_buffers(
            pa.string(), self.rows * self._width, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
        )
        self._first_pieces = np.arange(0, self.rows * self._width, self._width, dtype=np.int32)
        self._nulls: dict[int, Bools] = {}
        self._check_literals()

    def _check_literals(self) -> None:
        row = b"".join(self._layout.literals)
        even = np.arange(0, self._width, 2, dtype=np.int32)
        literals = self._take((self._first_pieces[:, None] + even).reshape(-1)).buffers()[2]
        literals = literals[: self.rows * len(row)]
        if not literals.equals(pa.py_buffer(row * self.rows)):
            self._find_null_strings(np.frombuffer(literals, np.uint8).reshape(self.rows, len(row)), row)

    def _find_null_strings(self, literals: Bytes, row: bytes) -> None:
        """Find null strings: an n and an l replace the quotes. No other byte may differ."""
        differing = literals != np.frombuffer(row, np.uint8)
        unexplained = int(np.count_nonzero(differing))
        closing = 0
        for number, scalar in enumerate(self._layout.scalars):
            closing += len(self._layout.literals[number])
            if not pt.is_string(scalar.kind):
                continue
            nulls = differing[:, closing - 1]
            if nulls.any() and (literals[nulls, closing - 1 : closing + 1] == (_N, _L)).all():
                self._nulls[number] = nulls
                unexplained -= 2 * int(np.count_nonzero(nulls))
        if unexplained:
            raise NotProvedError("names or punctuation differ")

    def _take(self, pieces: Bounds) -> pa.Array:
        return pc.take(self._pieces, pa.array(pieces), boundscheck=False)

    def column(self, number: int) -> pa.Array:
        """The column of a scalar; all its values are proved valid."""
        texts = self._take(self._first_pieces + np.int32(2 * number + 1))
        kind = self._layout.scalars[number].kind
        if not pt.is_string(kind):
            return scalars_of(texts, kind)
        if number in self._nulls:
            nulls = pa.array(self._nulls[number], pa.bool_())
            if not all_true(pc.equal(texts.filter(nulls), pa.scalar("ul", pa.string()))):
                raise NotProvedError("not a string")
            texts = pc.if_else(nulls, pa.scalar(None, pa.string()), texts)
        return strings_of(texts, may_have_escapes=self._has_escapes)


def _name_ends(data: bytes, has_escapes: bool) -> Bounds:
    """The positions of all unescaped quotes before a colon."""
    every = np.frombuffer(data, np.uint8)
    mask = np.empty(len(every), np.bool_)
    mask[-1] = False
    for start in range(0, len(every), _SCAN_BYTES):
        part = every[start : start + _SCAN_BYTES + 1]
        at_quote = np.equal(part[:-1], _QUOTE, out=mask[start : start + len(part) - 1])
        at_quote &= part[1:] == _COLON
    ends = np.flatnonzero(mask).astype(np.int32)
    return np.setdiff1d(ends, _escaped(every), assume_unique=True) if has_escapes else ends


def _escaped(every: Bytes) -> Positions:
    """The positions after unescaped backslashes."""
    slashes = np.flatnonzero(every == _BACKSLASH).astype(np.int32)
    if len(slashes) > max(_FEW_ESCAPES, len(every) // _LEAST_BYTES_PER_ESCAPE):
        raise NotProvedError("so many escapes that a parser is faster")
    return escaping(slashes) + np.int32(1)


def _bounds(name_ends: Bounds, layout: Layout, size: int) -> Bounds:
    """The start of every literal and value, row by row, then the end.

    Raises:
        NotProvedError: some literal has the wrong length.
    """
    rows, width = len(name_ends), 2 * len(layout.scalars) + 1
    flat = np.empty(rows * width + 1, np.int32)
    flat[-1] = size
    bounds = flat[:-1].reshape(rows, width)
    lengths = np.array([len(literal) for literal in layout.literals], np.int32)
    after_name = np.array([scalar.after_name for scalar in layout.scalars], np.int32)
    before_next = np.array([scalar.before_next for scalar in layout.scalars[:-1]], np.int32)
    names = np.array([scalar.name for scalar in layout.scalars])
    plain = len(names) == layout.names
    at_value = name_ends if plain else name_ends[:, names]
    at_next = name_ends[:, 1:] if plain else name_ends[:, names[:-1] + 1]
    bounds[:, 0] = name_ends[:, 0] - np.int32(layout.first_name_end)
    np.add(at_value, after_name, out=bounds[:, 1::2])
    np.subtract(at_next, before_next, out=bounds[:, 2:-1:2])
    bounds[:-1, -1] = bounds[1:, 0] - lengths[-1]
    bounds[-1, -1] = size - lengths[-1]
    # A literal with one name always has the right length: both its ends are computed from that name.
    proved = flat[0] == 0 and (bounds[:, 2::2] >= bounds[:, 1::2]).all()
    if not proved or not (plain or (np.diff(flat).reshape(rows, width)[:, ::2] == lengths).all()):
        raise NotProvedError("names or punctuation differ")
    return flat
