"""Files with a given number of rows: well-formed ones, and ones that make a reader leave its fast path."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc, orc

Write: TypeAlias = Callable[[Path, int], None]
"""Fills a folder with files that have this many rows in total."""


def one_file(line: Callable[[int], str | bytes], *, end: bytes = b"\n", head: bytes = b"") -> Write:
    def write(folder: Path, rows: int) -> None:
        lines = (line(number) for number in range(rows))
        encoded = (text if isinstance(text, bytes) else text.encode() for text in lines)
        (folder / "a").write_bytes(head + b"".join(text + end for text in encoded))

    return write


def many_files(line: Callable[[int], str]) -> Write:
    """Writes each row to another file."""

    def write(folder: Path, rows: int) -> None:
        for number in range(rows):
            (folder / f"{number:06}").write_text(line(number) + "\n")

    return write


def one_record(record: Callable[[int], str]) -> Write:
    """Writes one record with this many parts."""

    def write(folder: Path, rows: int) -> None:
        (folder / "a").write_text(record(rows) + "\n")

    return write


def _object(number: int, **others: object) -> str:
    fields = {
        "id": number, "name": f"näme {number}", "at": f"2024-02-29T12:{number % 60:02}:00Z",
        "day": "2024-02-29", "price": 1.25, "ratio": number / 8, "flag": number % 2 == 0, "raw": "QUJD",
        "tags": ["a", f"b{number}"], "place": {"x": number, "y": "z"},
    }  # fmt: skip
    return json.dumps(fields | others)


def _every(
    step: int, odd: Callable[[int], str], usual: Callable[[int], str] = _object
) -> Callable[[int], str]:
    return lambda number: odd(number) if number % step == 0 else usual(number)


JSON_SCHEMA = (
    "id long, name string, at timestamp, day date, price decimal(10, 2), ratio double, flag boolean, "
    "raw binary, tags array<string>, place struct<x: long, y: string>"
)
JSON: dict[str, Write] = {
    "good lines": one_file(_object),
    "files of one line": many_files(_object),
    "carriage returns": one_file(_object, end=b"\r\n"),
    "lone carriage returns": one_file(_object, end=b"\r"),
    "blank lines": one_file(_object, end=b"\n\n \n"),
    "unknown fields": one_file(lambda number: _object(number, other=number)),
    "unknown fields under new names": one_file(lambda number: _object(number, **{f"f{number}": 1})),
    "unknown nested fields": one_file(lambda number: _object(number, place={"x": 1, "y": "z", "w": number})),
    "unknown fields and carriage returns": one_file(
        lambda number: _object(number, other=number), end=b"\r\n"
    ),
    "unknown fields in files of one line": many_files(lambda number: _object(number, other=number)),
    "misfits": one_file(lambda number: _object(number, id="x", tags=[1, {"a": 2}], place=3)),
    "misfits in every third line": one_file(_every(3, lambda number: _object(number, id="x"))),
    "misfits in every fortieth line": one_file(_every(40, lambda number: _object(number, id="x"))),
    "words in every fortieth line": one_file(
        _every(40, lambda number: f'{{"id": {number}, "ratio": NaN, "name": "x"}}')
    ),
    "broken lines": one_file(lambda number: _object(number)[:-5]),
    "every second line broken": one_file(_every(2, lambda number: _object(number)[:-5])),
    "every tenth line broken": one_file(_every(10, lambda number: _object(number)[:-5])),
    "arrays on lines": one_file(lambda number: f"[{_object(number)}, {_object(number)}]"),
    "layouts that change": one_file(lambda number: _object(number)[: -1 - number % 3] + "}"),
    "single quotes": one_file(lambda number: f"{{'id': {number}, 'name': 'x\"y'}}"),
    "names without quotes": one_file(lambda number: f'{{id: {number}, name: "x"}}'),
    "comments": one_file(lambda number: f'{{"id": /* a comment */ {number}}} // the end'),
    "leading zeros": one_file(lambda number: f'{{"id": 000{number}}}'),
    "words for numbers": one_file(lambda number: f'{{"id": {number}, "ratio": NaN}}'),
    "escapes": one_file(lambda number: f'{{"id": {number}, "name": "\\u00e4\\n\\"{number}\\""}}'),
    "odd escapes": one_file(lambda number: f'{{"id": {number}, "name": "a\\qb"}}'),
    "control characters": one_file(lambda number: f'{{"id": {number}, "name": "a\tb\x01"}}'),
    "not UTF-8": one_file(lambda number: f'{{"id": {number}, "name": "'.encode() + b'\xff\xfe"}'),
    "dates of a pattern": one_file(
        lambda number: f'{{"day": "29/02/2024", "at": "29 Feb 2024 12:30:{number % 60:02}"}}'
    ),
    "texts that are no dates": one_file(lambda number: f'{{"day": "{number}th", "at": "at {number}"}}'),
    "a map": one_file(lambda number: f'{{"id": {number}, "m": {{"k{number}": {number}}}}}'),
    "nulls and empty objects": one_file(lambda _: '{"id": null, "name": null, "place": {}, "tags": []}'),
    "one long text": one_record(lambda size: json.dumps({"id": 1, "name": 'ab"\n' * size})),
    "one wide object": one_record(lambda size: json.dumps({f"f{number}": number for number in range(size)})),
    "one long list": one_record(lambda size: json.dumps({"tags": [f"t{number}" for number in range(size)]})),
    "one long array of rows": one_record(lambda size: f"[{','.join(map(_object, range(size)))}]"),
    "one long comment": one_record(lambda size: f'{{"id": /*{"* /" * size}*/ 1}}'),
}
JSON_DOCUMENTS: dict[str, Write] = {
    "an array of objects": one_record(lambda size: "[\n" + ",\n".join(map(_object, range(size))) + "\n]"),
    "an array of objects with unknown fields": one_record(
        lambda size: "[\n" + ",\n".join(_object(number, other=1) for number in range(size)) + "\n]"
    ),
    "an array of objects whose names have no quotes": one_record(
        lambda size: "[\n" + ",\n".join(f"{{id: {number}, name: 'x'}}" for number in range(size)) + "\n]"
    ),
    "an array of objects with comments": one_record(
        lambda size: (
            "[\n" + ", // next\n".join(f'{{"id": /* a */ {number}}}' for number in range(size)) + "\n]"
        )
    ),
    "an array that breaks off": one_record(lambda size: "[\n" + ",\n".join(map(_object, range(size)))),
    "documents of one object": many_files(_object),
    "one wide object": JSON["one wide object"],
    "one long text": JSON["one long text"],
}

CSV_SCHEMA = "id long, name string, at timestamp, day date, price decimal(10, 2), ratio double, flag boolean"


def _line(number: int, name: str = "name", end: str = "true", sep: str = ",") -> str:
    at = f"2024-02-29T12:{number % 60:02}:00Z"
    return sep.join((str(number), name, at, "2024-02-29", "1.25", str(number / 8), end))


_HEAD = b"id,name,at,day,price,ratio,flag\n"

CSV: dict[str, Write] = {
    "good lines": one_file(_line),
    "a header": one_file(_line, head=_HEAD),
    "a header with another column": one_file(lambda n: f"{_line(n)},{n}", head=_HEAD[:-1] + b",more\n"),
    "files of one line": many_files(_line),
    "files of one line with another column": many_files(lambda number: f"{_line(number)},x"),
    "carriage returns": one_file(_line, end=b"\r\n"),
    "blank lines": one_file(_line, end=b"\n\n \n"),
    "comments": one_file(_every(2, lambda number: f"# {number}", _line)),
    "tabs": one_file(lambda number: _line(number, sep="\t")),
    "quotes": one_file(lambda number: _line(number, name='"a,b"')),
    "other quotes": one_file(lambda number: _line(number, name="'a,b'")),
    "escaped quotes": one_file(lambda number: _line(number, name='"a\\"b"')),
    "escaped escapes": one_file(lambda number: _line(number, name='"a\\\\"')),
    "doubled quotes": one_file(lambda number: _line(number, name='"a""b"')),
    "stray quotes": one_file(lambda number: _line(number, name='"a"b"c"')),
    "quotes that stay open": one_file(lambda number: _line(number, name='"a')),
    "blanks around": one_file(lambda number: _line(number, name='  a "b"  ', end=" true ")),
    "empty texts": one_file(lambda number: _line(number, name='""')),
    "words for nulls and numbers": one_file(
        lambda number: f"NULL,NULL,NULL,NULL,NULL,{('not a number', '+oo', '-oo')[number % 3]},NULL"
    ),
    "misfits": one_file(lambda number: f"x{number},y,z,2024-99-99,1.234567,u,v"),
    "misfits in every third line": one_file(_every(3, lambda number: f"x{number},y,,,,,", _line)),
    "too many fields": one_file(lambda number: f"{_line(number)},more,{number}"),
    "too many fields and carriage returns": one_file(lambda n: f"{_line(n)},more,{n}", end=b"\r\n"),
    "too few fields": one_file(lambda number: f"{number},name"),
    "every second line too long": one_file(_every(2, lambda number: f"{_line(number)},more", _line)),
    "every second line too short": one_file(_every(2, lambda number: f"{number}", _line)),
    "not UTF-8": one_file(lambda number: _line(number).encode().replace(b"name", b"n\xe4me\xff")),
    "dates of a pattern": one_file(lambda n: f"{n},x,29 Feb 2024 12:30:{n % 60:02},29/02/2024,1,1,true"),
    "one field": one_file(lambda number: f"{number}"),
    "one field in quotes": one_file(lambda number: f'"{number}"'),
    "one wide line": one_record(lambda size: ",".join(map(str, range(size)))),
    "one wide line of quotes": one_record(lambda size: ",".join(f'"a""{number}"' for number in range(size))),
    "one long text": one_record(lambda size: f"1,{'ab ' * size}"),
    "one long text of quotes": one_record(lambda size: '1,"' + 'a""b\\"' * size + '"'),
    "one long text of stray quotes": one_record(lambda size: '1,"' + 'a"b' * size + '"'),
}
CSV_DOCUMENTS: dict[str, Write] = {
    **CSV,
    "line ends in quotes": one_file(lambda number: _line(number, name='"a\nb"')),
    "line ends in quotes and too many fields": one_file(lambda n: _line(n, name='"a\nb"') + ",more"),
    "line ends in escaped quotes": one_file(lambda number: _line(number, name='"a\\"\nb"')),
    "line ends with carriage returns in quotes": one_file(
        lambda number: _line(number, name='"a\r\nb"'), end=b"\r\n"
    ),
    "one field with line ends": one_file(lambda number: f'"{number}\n"'),
}


TEXT: dict[str, Write] = {
    "good lines": one_file(lambda number: f"line {number}"),
    "files of one line": many_files(lambda number: f"line {number}"),
    "carriage returns": one_file(lambda number: f"line {number}", end=b"\r\n"),
    "lone carriage returns": one_file(lambda number: f"line {number}", end=b"\r"),
    "other separators": one_file(lambda number: f"line {number}", end=b"||"),
    "half separators": one_file(lambda _: "|x" * 5, end=b"||"),
    "no line end": one_record(lambda size: "text " * size),
    "nothing but line ends": one_file(lambda _: ""),
}


def _table(rows: int) -> pa.Table:
    numbers = range(rows)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "name": [f"name {number}" for number in numbers],
            "place": [{"x": number, "y": "z", "w": number} for number in numbers],
            "tags": [["a", f"b{number}"] for number in numbers],
            "other": [f"o{number}" for number in numbers],
            "misfit": [f"m{number}" for number in numbers],
        }
    )


COLUMNS_THAT_FIT = "id long, name string, place struct<x: long, y: string>, tags array<string>"


def _parquet(folder: Path, rows: int) -> None:
    pq.write_table(_table(rows), folder / "a", row_group_size=max(rows // 4, 1))


def _orc(folder: Path, rows: int) -> None:
    orc.write_table(_table(rows), folder / "a")


def _arrow(folder: Path, rows: int) -> None:
    table = _table(rows)
    with ipc.new_file(str(folder / "a"), table.schema) as file:
        for batch in table.to_batches(max_chunksize=max(rows // 4, 1)):
            file.write_batch(batch)


_PLACE = {
    "type": "record",
    "name": "place",
    "fields": [
        {"name": name, "type": kind} for name, kind in (("x", "long"), ("y", "string"), ("w", "long"))
    ],
}
_AVRO = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "int"},
        *({"name": name, "type": "string"} for name in ("name", "other", "misfit")),
        {"name": "place", "type": _PLACE},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


def _avro(folder: Path, rows: int) -> None:
    content = io.BytesIO()
    fastavro.writer(content, _AVRO, _table(rows).to_pylist())
    (folder / "a").write_bytes(content.getvalue())


def _in_files(write: Write) -> Write:
    """Writes this many files of one row."""

    def write_all(folder: Path, rows: int) -> None:
        for number in range(rows):
            write(folder, 1)
            (folder / "a").rename(folder / f"{number:06}")

    return write_all


COLUMNAR: dict[str, dict[str, Write]] = {
    name: {"one file": write, "files of one row": _in_files(write)}
    for name, write in (("parquet", _parquet), ("orc", _orc), ("arrow", _arrow), ("avro", _avro))
}
