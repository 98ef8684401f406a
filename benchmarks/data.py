"""The benchmarks' data: created once in a folder, and reused by later runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

MIXED_SCHEMA = (
    "id long, customer long, quantity int, price double, discount double, country string, "
    "product string, comment string, at timestamp, active boolean"
)
TINY_SCHEMA = "id long, customer string, amount double, at timestamp"

_FORMAT = 2
"""Increased when the data of a name changes, so that data of older runs is created again."""

_FILES_IN_A_FOLDER = 10_000
_COPIES = 5
_SAMPLE_ROWS = 250_000
_ROW_GROUP_ROWS = 250_000
_TEXT = "the quick brown fox, jumps over a lazy dog and naïve café owners sell fresh bread every day"
_WORDS = np.array(_TEXT.split(), dtype=object)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Files of one format.

    Attributes:
        reader: the name of the format, which is the same for Spark and for flip27.
        options: the options of both sides, without the schema.
        bytes: the size of all files together.
    """

    folder: str
    reader: str
    schema: str
    options: dict[str, str]
    files: int
    rows: int
    bytes: int


class DataCache:
    """Datasets in a folder. The note next to a dataset is written once the dataset is complete."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def tiny(self, files: int, reader: str = "json") -> Dataset:
        """Files of one row each, as JSON or Parquet."""
        write_row = _TINY_WRITERS[reader]

        def write(folder: Path) -> int:
            for number in range(files):
                write_row(number, folder / f"{number:07d}.{reader}")
            return files

        name = f"tiny-{files}" if reader == "json" else f"tiny-{reader}-{files}"
        return self._made(name, reader, TINY_SCHEMA, {}, write)

    def tree(self, files: int) -> Dataset:
        """Empty text files in folders of 10,000."""

        def write(folder: Path) -> int:
            for number in range(files):
                below = folder / f"{number // _FILES_IN_A_FOLDER:05d}"
                if number % _FILES_IN_A_FOLDER == 0:
                    below.mkdir()
                (below / f"part-{number:09d}.txt").touch()
            return 0

        return self._made(f"tree-{files}", "text", "value string", {}, write)

    def bulk(self, reader: str, *, total_bytes: int, file_bytes: int) -> Dataset:
        """Files of ten mixed columns, of about ``file_bytes`` each."""
        count = max(1, round(total_bytes / file_bytes))
        write_file = _WRITERS[reader]

        def write(folder: Path) -> int:
            rows = _rows_for(write_file, folder / ".sample", file_bytes)
            for number in range(count):
                write_file(mixed_rows(number, rows), folder / f"{number:03d}.{reader}")
            return rows * count

        options = {"header": "true"} if reader == "csv" else {}
        return self._made(f"{reader}-{count}x{file_bytes}", reader, MIXED_SCHEMA, options, write)

    def wide(self, *, total_bytes: int, file_bytes: int) -> Dataset:
        """Parquet files of fifty columns: the ten mixed ones, five times."""
        count = max(1, round(total_bytes / file_bytes))

        def write(folder: Path) -> int:
            rows = _rows_for(_write_wide_parquet, folder / ".sample", file_bytes, _SAMPLE_ROWS // 5)
            for number in range(count):
                _write_wide_parquet(mixed_rows(number, rows), folder / f"{number:03d}.parquet")
            return rows * count

        columns = [column.split() for column in MIXED_SCHEMA.split(", ")]
        schema = ", ".join(f"{name}{copy} {kind}" for copy in range(_COPIES) for name, kind in columns)
        return self._made(f"wide-parquet-{count}x{file_bytes}", "parquet", schema, {}, write)

    def _made(
        self, name: str, reader: str, schema: str, options: dict[str, str], write: Callable[[Path], int]
    ) -> Dataset:
        folder, note = self._root / name, self._root / f"{name}.json"
        if note.exists():
            known = json.loads(note.read_text(encoding="utf-8"))
            if known.pop("format") == _FORMAT:
                return Dataset(**known | {"folder": str(folder)})
            note.unlink()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        rows = write(folder)
        sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
        made = Dataset(
            folder=str(folder),
            reader=reader,
            schema=schema,
            options=options,
            files=len(sizes),
            rows=rows,
            bytes=sum(sizes),
        )
        note.write_text(json.dumps(asdict(made) | {"format": _FORMAT}), encoding="utf-8")
        return made


def mixed_rows(number: int, rows: int) -> pa.Table:
    """Rows of ten columns. The same arguments give the same rows.

    As in real data, some columns repeat a few values and others hardly any. If all columns were easy to
    compress, a gigabyte of Parquet would consist mostly of overhead per row.
    """
    random = np.random.default_rng(number)
    words = _WORDS[random.integers(0, len(_WORDS), (rows, 5))]
    texts = [pa.array(words[:, i], pa.string()) for i in range(5)]
    comment = pc.binary_join_element_wise(*texts, _labels("no. ", random.integers(0, 1 << 40, rows)), " ")
    seconds = 1_767_225_600 + random.integers(0, 30_000_000, rows)
    return pa.table(
        {
            "id": pa.array(np.arange(rows, dtype=np.int64) + number * rows),
            "customer": pa.array(random.integers(0, 1 << 40, rows)),
            "quantity": pa.array(random.integers(1, 1_000, rows), pa.int32()),
            "price": pa.array(random.random(rows) * 1_000),
            "discount": pa.array(np.round(random.random(rows), 4)),
            "country": _labels("C", random.integers(0, 200, rows)),
            "product": _labels("product-", random.integers(0, 100_000, rows)),
            "comment": comment,
            "at": pa.array(seconds * 1_000 + random.integers(0, 1_000, rows), pa.timestamp("ms", "UTC")),
            "active": pa.array(random.random(rows) < 0.5),
        }
    )


def _labels(prefix: str, numbers: np.ndarray[Any, Any]) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pc.cast(pa.array(numbers), pa.string()), "")


def _tiny_row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "customer": f"customer-{number * 7919 % 1000}",
        "amount": number * 31 % 10_000 / 100,
        "at": f"2026-01-01T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}.000Z",
    }


def _write_tiny_json(number: int, file: Path) -> None:
    file.write_bytes(json.dumps(_tiny_row(number)).encode() + b"\n")


def _write_tiny_parquet(number: int, file: Path) -> None:
    row = pa.table({name: [value] for name, value in _tiny_row(number).items()})
    at = pc.strptime(row.column("at"), format="%Y-%m-%dT%H:%M:%S.000Z", unit="us")
    at = pc.assume_timezone(at, "UTC")
    pq.write_table(row.set_column(row.schema.get_field_index("at"), "at", at), file)


_TINY_WRITERS: dict[str, Callable[[int, Path], None]] = {
    "json": _write_tiny_json,
    "parquet": _write_tiny_parquet,
}


def _rows_for(
    write_file: Callable[[pa.Table, Path], None],
    sample: Path,
    file_bytes: int,
    sample_rows: int = _SAMPLE_ROWS,
) -> int:
    """The number of rows that make a file of this size."""
    write_file(mixed_rows(0, sample_rows), sample)
    rows = max(1, file_bytes * sample_rows // sample.stat().st_size)
    sample.unlink()
    return rows


def _write_parquet(table: pa.Table, file: Path) -> None:
    pq.write_table(table, file, row_group_size=_ROW_GROUP_ROWS, coerce_timestamps="us")


def _write_wide_parquet(table: pa.Table, file: Path) -> None:
    names = [f"{name}{copy}" for copy in range(_COPIES) for name in table.column_names]
    # Each copy begins at another row, so that the copies of a column differ.
    parts = [_turned(table, copy) for copy in range(_COPIES)]
    columns = [column for part in parts for column in part.columns]
    _write_parquet(pa.Table.from_arrays(columns, names=names), file)


def _turned(table: pa.Table, number: int) -> pa.Table:
    at = table.num_rows * number // _COPIES
    return pa.concat_tables([table[at:], table[:at]]).combine_chunks()


def _write_json(table: pa.Table, file: Path) -> None:
    parts: list[pa.Array | str] = []
    for name, column in zip(table.column_names, _texts(table), strict=True):
        quote = '"' if _is_text(table.schema.field(name).type) else ""
        parts += [f'{"," if parts else "{"}"{name}":{quote}', column, quote]
    file.write_bytes(_lines([*parts, "}\n"]))


def _write_csv(table: pa.Table, file: Path) -> None:
    parts: list[pa.Array | str] = []
    for name, column in zip(table.column_names, _texts(table), strict=True):
        quote = '"' if name == "comment" else ""
        parts += [("," if parts else "") + quote, column, quote]
    file.write_bytes(",".join(table.column_names).encode() + b"\n" + _lines([*parts, "\n"]))


def _texts(table: pa.Table) -> list[pa.Array]:
    columns = [table.column(name).combine_chunks() for name in table.column_names]
    return [
        pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ")
        if pa.types.is_timestamp(column.type)
        else pc.cast(column, pa.string())
        for column in columns
    ]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_timestamp(kind))


def _lines(parts: list[pa.Array | str]) -> bytes:
    lines = pc.binary_join_element_wise(*parts, "")
    # A string array stores its bytes contiguously.
    return bytes(lines.buffers()[2])


_WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": _write_parquet,
    "json": _write_json,
    "csv": _write_csv,
}
