"""Reads the files of a case not by a reader of files: natively, or as pages of an HTTP API."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import NullType, StringType, StructField, StructType

from flip27_source.enumerators.files.options import PATHS
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.enumerators.http_api.enumerator import HttpSplit
from flip27_source.errors import Flip27Error
from flip27_source.native.csv_headers import CsvHeaders
from flip27_source.native.options import NativeOptions
from flip27_source.native.spark_reads import SparkReads
from flip27_source.options import Options
from flip27_source.readers.files.base_paths import BASE_PATH, BasePaths
from flip27_source.schemas.new_columns import evolved
from flip27_source.source_options import PATH
from tests.http_api import Answer, HttpApi, Misbehaviour, Params, http_api
from tests.readers.http_api.reading import ENDLESS, KINDS, reader_of
from tests.readers.spark_reading import split_of

from .case import Case, LineFile
from .our_side import outcome
from .spark_side import FAILURES, FILE, JVM_ZONE, Failed, Outcome, SparkSide, Theirs, failed, in_files

_OF_HTTP = ("mode", "columnNameOfCorruptRecord", "timeZone")
_PAGINGS = tuple(KINDS[kind] for kind in ("cursor", "link", "body_link", "page", "none")) + tuple(
    ENDLESS.values()
)
_PAGE_LINES = 3
_DIFFERING_CASE = Failed("names that differ only in case")
"""Spark would find one of them, so native reads refuse the files."""
_WORDS = re.compile(rb"NaN|Infinity")
"""What Python's parser reads as numbers, and JSON does not have."""


class _NativeReads(SparkSide):
    """Lets Spark read exactly the files of a case, as ``native_batches`` does."""

    def _frame(self, case: Case, schema: StructType | None, paths: Sequence[Path], folder: Path) -> DataFrame:
        return self._reads(case, folder).frame(_splits(case, paths, folder), in_files(schema))

    def _reads(self, case: Case, folder: Path) -> SparkReads:
        bases = BasePaths.of(Options.parse({"basePath": str(folder)}, (BASE_PATH, PATH, PATHS)))
        options = NativeOptions.parse(case.options)
        headers = CsvHeaders.of(case.format, options) if case.columns is None else None
        return SparkReads(self._spark, case.format, options.spark, prefixes={}, bases=bases, headers=headers)

    def _schema(self, case: Case, folder: Path) -> StructType | Failed:
        if case.columns is not None:
            return super()._schema(case, folder)
        reads, nothing = self._reads(case, folder), pa.schema([])
        try:
            found = reads.inferred(_splits(case, [folder], folder))
        except (*FAILURES, Flip27Error) as error:
            return failed(error)
        if reads.differing_case(nothing, found, ()) is not None:
            return _DIFFERING_CASE
        return from_arrow_schema(evolved(nothing, found), prefer_timestamp_ntz=True)

    def _rows(self, case: Case, schema: StructType, paths: Sequence[Path], folder: Path) -> pa.Table:
        if case.columns is not None:
            return super()._rows(case, schema, paths, folder)
        # A union of groups of files has no column with metadata.
        columns = [f"`{name}`" for name in schema.names]
        name = f"substring_index(input_file_name(), '/', -1) AS {FILE}"
        return self._frame(case, schema, paths, folder).selectExpr(*columns, name).toArrow()


class _FilesAlone(SparkSide):
    """Lets Spark read each file by itself, to columns that were found for all of them."""

    def alone(self, case: Case, folder: Path, wanted: StructType) -> Theirs:
        """The rows of each file, and the wanted schema if it has exactly the columns of the files.

        If nothing is wanted, a failure to infer the columns of a file is the schema.
        """
        self._spark.conf.set("spark.sql.session.timeZone", case.zone)
        kinds = {field.name.lower(): field for field in wanted}
        names: dict[str, str] = {}
        outcomes: dict[str, Outcome] = {}
        with JVM_ZONE.set_to(case.jvm_zone, self._spark):
            for file in case.files:
                try:
                    found = self._frame(case, None, [folder / file.path], folder)
                except FAILURES as error:
                    if not wanted.names:
                        return Theirs(failed(error), {})
                    own = []
                else:
                    own = [field for field in found.schema if field.dataType != NullType()]
                names |= {field.name.lower(): field.name for field in own}
                by_header = case.format == "csv" and case.options.get("header") == "true"
                read = (
                    StructType([kinds.get(field.name.lower(), field) for field in own])
                    if by_header
                    else wanted
                )
                outcomes[file.path] = self._of_columns(case, read, wanted, folder / file.path, folder)
        missing = [StructField(name, StringType()) for lower, name in names.items() if lower not in kinds]
        columns = [field for field in wanted if field.name.lower() in names]
        return Theirs(StructType([*columns, *missing]), outcomes)

    def _of_columns(
        self, case: Case, read: StructType, wanted: StructType, path: Path, folder: Path
    ) -> Outcome:
        schema = to_arrow_schema(wanted, timezone="UTC")
        if not read.names:
            return schema.empty_table()
        rows = self._of_file(case, read, path, folder)
        if isinstance(rows, Failed):
            return rows
        own = {name.lower(): rows.column(name) for name in rows.column_names}
        return pa.table(
            [
                own.get(name.lower(), pa.nulls(rows.num_rows, schema.field(name).type))
                for name in schema.names
            ],
            names=schema.names,
        )


def _splits(case: Case, paths: Sequence[Path], folder: Path) -> list[FileSplit]:
    """The files of a case that are among ``paths`` or, if these are their folder, all of them."""
    files = [folder / file.path for file in case.files]
    return [split_of(file) for file in files if file in paths or folder in paths]


class WholeFiles:
    """What was read of each file, with the interface of ``OurSide``; files are not cut.

    Attributes:
        theirs: what to compare with, if not with all files read by Spark together.
    """

    def __init__(
        self,
        outcomes: Mapping[str, Outcome],
        schema: StructType | Failed | None = None,
        theirs: Theirs | None = None,
    ) -> None:
        self._outcomes = outcomes
        self._schema = schema
        self.theirs = theirs

    @property
    def listed(self) -> Collection[str]:
        """The paths of all files."""
        return self._outcomes.keys()

    def take(self, schema: StructType) -> pa.Schema:
        """Return the schema, to which the files have been read, as an Arrow schema."""
        return to_arrow_schema(schema, timezone="UTC")

    def found_schema(self) -> StructType | Failed:
        """The inferred schema, in cases without one."""
        assert self._schema is not None, "the case has a schema"
        return self._schema

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
    ours = _NativeReads(spark).read(case, folder)
    if case.columns is not None:
        return WholeFiles(ours.outcomes)
    if ours.schema is _DIFFERING_CASE:
        return WholeFiles({}, ours.schema, Theirs(ours.schema, {}))
    wanted = StructType() if isinstance(ours.schema, Failed) else ours.schema
    return WholeFiles(ours.outcomes, ours.schema, _FilesAlone(spark).alone(case, folder, wanted))


def http_side(case: Case) -> WholeFiles:
    """Read the lines of each file as the records of an endpoint, in pages."""
    schema = to_arrow_schema(StructType.fromDDL(case.ddl or ""), timezone="UTC")
    with http_api() as api:
        return WholeFiles(
            {
                file.path: outcome(partial(_records, api, case, file, schema))
                for file in case.files
                if isinstance(file, LineFile)
            }
        )


def http_case(make: Callable[[random.Random, str], Case]) -> Callable[[random.Random, str], Case]:
    """A maker of cases of JSON lines, each of which is a valid object.

    No two lines of a file are equal, because equal pages are an error of the API.
    """

    def made(rng: random.Random, name: str) -> Case:
        case = make(rng, name)
        while case.columns is None:
            case = make(rng, name)
        files = tuple(
            replace(
                file,
                path=f"f{number}.json{rng.choice(('', '', '.gz'))}",
                pieces=tuple(dict.fromkeys(filter(_is_object, file.pieces))),
            )
            for number, file in enumerate(case.files)
            if isinstance(file, LineFile)
        )
        options = {option: text for option, text in case.options.items() if option in _OF_HTTP}
        paging = rng.choice(_PAGINGS)
        return replace(case, files=files, options=options, own_options=paging, own_columns=(), side="http")

    return made


def _is_object(line: bytes) -> bool:
    try:
        return (
            isinstance(json.loads(line.decode()), dict) and line.endswith(b"\n") and not _WORDS.search(line)
        )
    except (ValueError, RecursionError):
        return False


@dataclass(frozen=True)
class _Pages(Misbehaviour):
    """The right answers of an endpoint with these lines as its records, paged as ``paging`` says."""

    lines: Sequence[bytes]
    paging: Mapping[str, str]
    is_packed: bool

    @property
    def requests(self) -> int:
        """More requests than a reader needs."""
        return 4 * len(self.lines) + 10

    def answer(self, api: HttpApi, path: str, params: Params) -> Answer:
        size = len(self.lines) if self.paging.get("pagination", "none") == "none" else _PAGE_LINES
        number = int(params.get("page", params.get("cursor", "1")))
        end = number * size
        body = b"[%s]" % b",".join(self.lines[end - size : end])
        has_more = end < len(self.lines) or "emptyPageEnds" in self.paging
        link = f"{api.url}{path}?page={number + 1}"
        is_in_headers = self.paging.get("pagination") == "link" and "linkPath" not in self.paging
        headers = {"Link": f'<{link}>; rel="next"'} if has_more and is_in_headers else {}
        if "recordsPath" in self.paging:
            members = [_member(self.paging["recordsPath"], body)]
            for option, following in (("cursorPath", number + 1), ("linkPath", link)):
                if option in self.paging:
                    text = json.dumps(following if has_more else None).encode()
                    members.append(_member(self.paging[option], text))
            body = b"{%s}" % b",".join(members)
        if self.is_packed:
            body, headers = gzip.compress(body), {**headers, "Content-Encoding": "gzip"}
        return Answer(body, headers=headers)


def _member(path: str, value: bytes) -> bytes:
    """A member of an object, at the end of a path of names."""
    first, _, rest = path.partition(".")
    return b'"%s":%s' % (first.encode(), b"{%s}" % _member(rest, value) if rest else value)


def _records(api: HttpApi, case: Case, file: LineFile, schema: pa.Schema) -> pa.Table:
    pages = _Pages(file.pieces, case.own_options, file.path.endswith(".gz"))
    api.misbehaves(*[pages] * pages.requests)
    options = {**case.own_options, **case.options}
    reader = reader_of(api, options, schema=schema, time_zone=case.zone)
    try:
        items = list(reader.read(HttpSplit(split_id=f"{api.url}/records")))
    finally:
        reader.close()
        api.misbehaviours.clear()
    batches = [item for item in items if isinstance(item, pa.RecordBatch)]
    return pa.Table.from_batches(batches, schema=schema)
