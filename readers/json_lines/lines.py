"""Chooses the lines that the fast path of the JSON reader can parse, and returns their rows.

What must not live here: the slow path, and the handling of malformed lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pyarrow as pa

from flip27_source.readers.json_lines.columns import JsonColumnsParser, Parsed
from flip27_source.readers.scalars.ordinary_texts import Pieces

_PARTS = 16
_SHORT_RUN_LINES = 64
_LINES_OF_A_REFUSAL = 8
"""Fewer lines than this are faster to read one by one than to parse again. Each such refusal doubles the
number of lines read one by one."""


class JsonLines:
    """Reads those lines of a block that a parser of columns accepts."""

    def __init__(self, parser: JsonColumnsParser) -> None:
        self._parser = parser

    def parsed(self, data: bytes) -> Parsed | None:
        """The block as columns, with its doubtful rows; None if the fast path refuses the block."""
        parsed = self._parser.parse_layout(data)
        if parsed is not None or not self._parser.usable:
            return parsed
        lines = data.count(b"\n")
        # Each line must be in braces. If there are also as many objects as lines, each line is one object: a
        # line break between } and { cannot be within an object, where only a comma or a bracket could follow.
        if data[:1] != b"{" or data[-2:] != b"}\n" or data.count(b"}\n{") != lines - 1:
            return None
        outcome = self._parser.parse(pa.py_buffer(data), lines)
        return outcome if isinstance(outcome, Parsed) else None

    def sorted_out(self, lines: Sequence[bytes], parsed: Parsed | None) -> tuple[Pieces, list[int]]:
        """The rows of the lines that the parser accepts, in pieces, and the numbers of the other lines.

        Args:
            parsed: the result of ``parsed`` for these lines.
        """
        if parsed is not None:
            every = pa.array(range(len(lines)), pa.int64())
            return [_proved_rows(parsed, every)], sorted(parsed.doubtful)
        if not self._parser.usable:
            return [], list(range(len(lines)))
        objects = [
            number
            for number, line in enumerate(lines)
            if line[:1] == b"{" and line[-1:] == b"}" and b"\n" not in line
        ]
        fast, refused = self._objects(lines, objects)
        others = set(range(len(lines))).difference(objects)
        return fast, sorted([*refused, *others])

    def _objects(
        self, lines: Sequence[bytes], numbers: list[int]
    ) -> tuple[list[tuple[pa.Array, list[pa.Array]]], list[int]]:
        """The rows of those of the lines that the parser accepts, and the numbers of the others."""
        refused: list[int] = []
        data = pa.py_buffer(b"".join([lines[number] + b"\n" for number in numbers]))
        offsets = list(accumulate((len(lines[number]) + 1 for number in numbers), initial=0))
        fast: list[tuple[pa.Array, list[pa.Array]]] = []
        at, bad = 0, -1
        run, by_line = len(numbers), 0
        while at < len(numbers):
            if at == bad:
                refused.append(numbers[at])
                at += 1
                continue
            end = min(at + run, len(numbers), bad if bad > at else len(numbers))
            size = offsets[end] - offsets[at]
            parsed = self._parser.parse(data.slice(offsets[at], size), end - at)
            if isinstance(parsed, Parsed):
                refused += [numbers[at + row] for row in parsed.doubtful]
                fast.append(_proved_rows(parsed, pa.array(numbers[at:end], pa.int64())))
                by_line = 0 if end - at > _SHORT_RUN_LINES else by_line
                at, run = end, 2 * run
                continue
            line = parsed.line if parsed.line is not None and parsed.line < end - at else None
            if line is not None and line > _LINES_OF_A_REFUSAL:
                # The next refusal is probably the same distance away, so do not parse further than that.
                bad, run = at + line, max(line, _SHORT_RUN_LINES)
            elif line is None and end - at > _SHORT_RUN_LINES:
                run = -(-(end - at) // _PARTS)
            else:
                by_line = max(2 * by_line, _LINES_OF_A_REFUSAL, 0 if line is not None else end - at)
                refused += numbers[at : at + by_line]
                at += by_line
        return fast, refused


def _proved_rows(parsed: Parsed, numbers: pa.Array) -> tuple[pa.Array, list[pa.Array]]:
    """The rows that are not doubtful, with their line numbers."""
    if not parsed.doubtful:
        return numbers, parsed.columns
    proved = pa.array([row for row in range(len(numbers)) if row not in parsed.doubtful], pa.int64())
    return numbers.take(proved), [column.take(proved) for column in parsed.columns]
