"""Reads the files of a case not by a reader of files: natively, or as pages of an HTTP API."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from flip27_source.enumerators.files.options import PATHS
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.enumerators.http_api.enumerator import HttpSplit
from flip27_source.native.spark_reads import SparkReads
from flip27_source.options import Options
from flip27_source.readers.files.base_paths import BASE_PATH, BasePaths
from flip27_source.source_options import PATH
from tests.http_api import HttpApi, Says, http_api
from tests.readers.http_api.reading import reader_of
from tests.readers.spark_reading import split_of

from .case import Case, LineFile
from .our_side import outcome
from .spark_side import Failed, Outcome, SparkSide, in_files

_OF_HTTP = ("mode", "columnNameOfCorruptRecord", "timeZone")
_PAGE_LINES = 3
_WORDS = re.compile(rb"NaN|Infinity")
"""What Python's parser reads as numbers, and JSON does not have."""


class _NativeReads(SparkSide):
    """Lets Spark read exactly the files of a case, as ``native_batches`` does."""

    def _frame(self, case: Case, schema: StructType | None, path: Path, folder: Path) -> DataFrame:
        paths = [folder / file.path for file in case.files]
        bases = BasePaths.of(Options.parse({"basePath": str(folder)}, (BASE_PATH, PATH, PATHS)))
        reads = SparkReads(self._spark, case.format, case.options, prefixes={}, bases=bases)
        return reads.frame([split_of(one) for one in paths if path in (folder, one)], in_files(schema))


class WholeFiles:
    """What was read of each file, with the interface of ``OurSide``; files are not cut."""

    def __init__(self, outcomes: Mapping[str, Outcome]) -> None:
        self._outcomes = outcomes

    @property
    def listed(self) -> Collection[str]:
        """The paths of all files."""
        return self._outcomes.keys()

    def take(self, schema: StructType) -> pa.Schema:
        """Return the schema, to which the files have been read, as an Arrow schema."""
        return to_arrow_schema(schema, timezone="UTC")

    def found_schema(self) -> StructType | Failed:
        """Not called, because the cases have a schema."""
        raise AssertionError("the case has a schema")

    def whole(self, path: str) -> Outcome:
        """The rows of one file."""
        return self._outcomes[path]

    def together(self, paths: Sequence[str]) -> Outcome:
        """The rows of the files, which have been read together."""
        read = [self._outcomes[path] for path in paths]
        failed = [one for one in read if isinstance(one, Failed)]
        return failed[0] if failed else pa.concat_tables([one for one in read if not isinstance(one, Failed)])

    def ranges(self, path: str) -> list[FileSplit]:
        """No ranges."""
        return []

    def read(self, splits: Sequence[FileSplit]) -> Outcome:
        """Not called, because there are no ranges."""
        raise AssertionError("files are not cut")


def native_side(case: Case, folder: Path, spark: SparkSession) -> WholeFiles:
    """Read the case natively."""
    return WholeFiles(_NativeReads(spark).read(case, folder).outcomes)


def http_side(case: Case) -> WholeFiles:
    """Read the lines of each file as the records of an endpoint, in pages."""
    schema = to_arrow_schema(StructType.fromDDL(case.ddl or ""), timezone="UTC")
    with http_api() as api:
        return WholeFiles(
            {
                file.path: outcome(partial(_records, api, case, file.pieces, schema))
                for file in case.files
                if isinstance(file, LineFile)
            }
        )


def http_case(make: Callable[[random.Random, str], Case]) -> Callable[[random.Random, str], Case]:
    """A maker of cases of JSON lines, each of which is a valid object."""

    def made(rng: random.Random, name: str) -> Case:
        case = make(rng, name)
        while case.columns is None:
            case = make(rng, name)
        files = tuple(
            replace(file, path=f"f{number}.json", pieces=tuple(filter(_is_object, file.pieces)))
            for number, file in enumerate(case.files)
            if isinstance(file, LineFile)
        )
        options = {option: text for option, text in case.options.items() if option in _OF_HTTP}
        return replace(case, files=files, options=options, own_options={}, own_columns=(), side="http")

    return made


def _is_object(line: bytes) -> bool:
    try:
        return (
            isinstance(json.loads(line.decode()), dict) and line.endswith(b"\n") and not _WORDS.search(line)
        )
    except (ValueError, RecursionError):
        return False


def _records(api: HttpApi, case: Case, lines: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    pages = [lines[at : at + _PAGE_LINES] for at in range(0, len(lines), _PAGE_LINES)] or [()]
    for number, page in enumerate(pages, start=1):
        more = (("Link", f'</records?page={number}>; rel="next"'),) if number < len(pages) else ()
        api.misbehaves(Says(b"[" + b",".join(page) + b"]", headers=more))
    reader = reader_of(api, {"pagination": "link", **case.options}, schema=schema, time_zone=case.zone)
    try:
        items = list(reader.read(HttpSplit(split_id=f"{api.url}/records")))
    finally:
        reader.close()
        api.misbehaviours.clear()
    batches = [item for item in items if isinstance(item, pa.RecordBatch)]
    return pa.Table.from_batches(batches, schema=schema)
