"""``flip27 check``: checks that this machine, these locations and this schema are ready for a query."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer

from flip27_source.coordination.context import CoordinatorSettings
from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.coordination.subtask_reports import ReportDemand
from flip27_source.driver.background import BackgroundRunner
from flip27_source.driver.reports import report_demand
from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.options import PATHS
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import Flip27Error, SchemaError
from flip27_source.executor.split_read import conformed
from flip27_source.reader import SourceReaderContext
from flip27_source.registry import find_enumerator
from flip27_source.schemas.ddl import columns_text, parse_columns
from flip27_source.schemas.inference import FindsSchema
from flip27_source.source import Source
from flip27_source.source_checks import (
    ChecksSource,
    Finding,
    Status,
    failed,
    failure,
    finding_of,
    ok,
    skipped,
    warning,
)
from flip27_source.source_options import PATH, STATE_LOCATION

from ..commands import CHECK_FAILED, DONE, FileSystem, command, option, source_options
from ..rendering import Answer, Table
from .locations import queues, source_path, state_location
from .machine import installed_version, machine, required_packages
from .spark import executors, session, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

group = typer.Typer()
_ANY_READER = "binary"


@command(
    group,
    example="flip27 check --path /landing/orders --state /ckpt/orders/flip27 --reader json "
    '--schema "id long"',
    answers="an object: is_ready, counts (by status), findings (check, status: ok, warning, failed or "
    "skipped; found; remedy).",
)
def check(
    path: Annotated[str | None, option("--path", "The path of the source, as for load(path).")] = None,
    state: Annotated[str | None, option("--state", "The stateLocation of the source.")] = None,
    enumerator: Annotated[str, option("--enumerator", "The option enumerator.")] = "files",
    reader: Annotated[str | None, option("--reader", "The option reader.")] = None,
    schema: Annotated[str | None, option("--schema DDL", "The schema, as for .schema(...).")] = None,
    given_options: Annotated[
        list[str] | None,
        option("--option NAME=VALUE", "Any other option of the source, as for .option(...). Repeatable."),
    ] = None,
    spark: Annotated[bool, option("--spark", "Start a Spark session, and check the executors too.")] = False,
    remote: Annotated[
        str | None, option("--remote URL", "Like --spark, on a Spark Connect server: sc://...")
    ] = None,
    *,
    files: FileSystem,
) -> Answer:
    """Check for causes of failing queries: versions, Java, locations, permissions, listing, schema.

    If the enumerator defines its own checks, they run too: of a database and its permissions, for example.
    Probe files are deleted afterwards. The exit code is 3 if a check failed.
    """
    given = {"enumerator": enumerator, "path": path, "stateLocation": state, "reader": reader}
    options = {name: value for name, value in given.items() if value is not None}
    options |= source_options(given_options, files.storage)
    wants_source = any(value is not None for value in (path, state, reader, schema, given_options))
    findings = list(machine(java=remote is None))
    try:
        with session(remote) if spark or remote is not None else nullcontext() as running:
            if running is not None:
                own = {name: installed_version(name) for name in ("flip27-source", *required_packages())}
                findings += executors(running, own, platform.python_version())
            if wants_source:
                findings += _of_source(options, schema, running)
    except Flip27Error as error:
        findings.append(failure("spark", error))
    return _answer(findings)


def _of_source(options: dict[str, str], ddl: str | None, spark: SparkSession | None) -> Iterator[Finding]:
    try:
        if find_enumerator(options["enumerator"]).default_reader is None:
            # Locations can be checked without the real reader; this one reads any file.
            options = {"reader": _ANY_READER} | options
        source = Source.resolve(options)
    except Flip27Error as error:
        yield failure("options", error)
        return
    yield finding_of("options", lambda: _created(source))
    location = source.options[STATE_LOCATION]
    if location is None and report_demand(source) is ReportDemand.REQUIRED:
        yield failed("state location", "not given, and tasks write reports to it", "give it with --state")
    elif location is None:
        yield skipped("state location", "not given", "give it with --state")
    else:
        yield from state_location(location, source.options.with_prefix("storage."))
    if issubclass(source.enumerator_type, ChecksSource):
        try:
            yield from source.enumerator_type.check_source(source.options)
        except Exception as error:  # noqa: BLE001 - the libraries of sources raise any error
            yield failure(source.enumerator_name, error)
        if issubclass(source.reader_type, FindsSchema):
            yield finding_of("schema", lambda: _columns(source, ddl, spark))
        return
    if not issubclass(source.enumerator_type, FilesEnumerator):
        yield skipped("path", f"the enumerator {source.enumerator_name} does not read files")
        return
    findings, first = source_path(source.options)
    yield from findings
    yield from queues(source.options)
    if first is not None and source.reader_name != _ANY_READER:
        yield finding_of("schema", lambda: _schema(source, ddl, first, spark))


def _created(source: Source) -> Finding:
    """Create the coordinator and the enumerator, which refuse options that contradict each other."""
    has_path = source.options[PATH] is not None or bool(source.options[PATHS])
    if has_path or not issubclass(source.enumerator_type, FilesEnumerator):
        unbounded, no_reports = Boundedness.CONTINUOUS_UNBOUNDED, ReportDemand.NONE
        settings = CoordinatorSettings.of(source, unbounded, reports=no_reports, one_batch=False, cores=1)
        SourceCoordinator(source.enumerator_type, settings, BackgroundRunner()).enumerator.close()
    return ok("options", f"enumerator {source.enumerator_name}, reader {source.reader_name}")


def _columns(source: Source, ddl: str | None, spark: SparkSession | None) -> Finding:
    """Look up the columns as a first start does, or open the reader with the given ones, as a task does."""
    reader: type[Any] = source.reader_type
    if ddl is None:
        try:
            found = reader.default_schema(source.options) or reader.find_schema(source.options)
        except SchemaError as error:
            return failed(
                "schema", error.what, f"if .schema(...) is set, give it with --schema; {error.remedy}"
            )
        return ok("schema", columns_text(found))
    schema = parse_columns(ddl) if spark is None else spark_schema(spark, ddl)
    opened = reader()
    opened.open(SourceReaderContext(options=source.options, schema=schema))
    opened.close()
    return ok("schema", f"{len(schema)} columns fit the reader {source.reader_name}")


def _schema(source: Source, ddl: str | None, first: FileSplit, spark: SparkSession | None) -> Finding:
    if ddl is None:
        schema = source.reader_type.default_schema(source.options)
        if not schema:
            return skipped("schema", "not given", "give it with --schema, as for .schema(...)")
    elif spark is not None:
        schema = spark_schema(spark, ddl)
    else:
        try:
            schema = parse_columns(ddl)
        except ValueError as error:
            return skipped("schema", f"only Spark can parse it: {error}", "add --spark to use Spark's parser")
    return _schema_fits(source, schema, first)


def _schema_fits(source: Source, schema: pa.Schema, split: FileSplit) -> Finding:
    """Read the beginning of a file with the schema, as in a task."""
    reader = source.reader_type()
    context = SourceReaderContext(options=source.options, schema=schema)
    reader.open(context)
    try:
        first = next(iter(conformed(reader.read, split, [split], context)), None)
    finally:
        reader.close()
    if first is None:
        return warning("schema", f"{split.path} has no rows to test the schema", "use a file with rows")
    said = f"{len(schema)} columns; the first rows of {split.path} match the schema"
    empty = []
    if isinstance(first, pa.RecordBatch) and first.num_rows:
        columns = zip(first.schema, first.columns, strict=True)
        empty = [field.name for field, column in columns if column.null_count == first.num_rows]
    if empty:
        return warning(
            "schema",
            f"{said}, but these columns contain only null: {', '.join(empty)}",
            "check the names and types of these columns: a column is null if the file does not have it, or "
            "has another type",
        )
    return ok("schema", said)


def _answer(findings: list[Finding]) -> Answer:
    rows = [(finding.status.value, finding.check, finding.found, finding.remedy) for finding in findings]
    counts = {status.value: sum(finding.status is status for finding in findings) for status in Status}
    is_ready = not counts[Status.FAILED]
    return Answer(
        data={"is_ready": is_ready, "counts": counts, "findings": findings},
        shown=[Table(columns=("status", "check", "found", "what_to_do"), rows=rows)],
        notes=[", ".join(f"{number} {status}" for status, number in counts.items() if number)],
        exit_code=DONE if is_ready else CHECK_FAILED,
    )
