"""``flip27 check``: checks that this machine, these locations and this schema are ready for a query."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer

from flip27_source.coordination.subtask_reports import ReportDemand
from flip27_source.driver.reports import report_demand
from flip27_source.driver.restored_state import restored_savepoint
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.listing.choice import Listing
from flip27_source.enumerators.files.readers_by_name import reader_for
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import AccessError, Flip27Error, IncompatibleStateError, SchemaError, StateError
from flip27_source.file_systems.paths import redacted
from flip27_source.options import Options
from flip27_source.reader import SourceReaderContext
from flip27_source.registry import find_enumerator
from flip27_source.savepoints.format import open_savepoint
from flip27_source.schemas.ddl import SparkOnlyError, columns_text, parse_columns
from flip27_source.schemas.inference import FindsSchema
from flip27_source.schemas.source_reader import reader_by_names
from flip27_source.schemas.source_schema import has_own_schema, schema_finder, schema_of
from flip27_source.snapshots.codec import SnapshotCodec
from flip27_source.snapshots.store import LocalStore, open_store
from flip27_source.source import Source, named_reader
from flip27_source.source_checks import (
    ChecksGivenSchema,
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
from flip27_source.source_options import CORE_OPTIONS, EVENT_TIME_ORDER, SAVEPOINT, STATE_LOCATION

from ..commands import CHECK_FAILED, DONE, FileSystem, command, option, pairs, seconds, source_options
from ..rendering import Answer, Table
from .event_time import CHECK as EVENT_TIME
from .event_time import backlog_in_order, chain_in_order, new_enumerator
from .executors import executors
from .locations import asked_root, has_path, path_of, queues, shared_probe, source_path, state_location
from .machine import (
    OLDEST_PYSPARK,
    installed_version,
    machine,
    package_version,
    pyspark_version,
    required_packages,
)
from .on_executor import ANY_READER, ExecutorTask, first_rows, own_checks, own_findings
from .spark import SessionSettings, session, spark_schema, wrong_schema
from .time_limits import answered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

group = typer.Typer()


@command(
    group,
    example="flip27 check --path /landing/orders --state /ckpt/orders/flip27 --reader json "
    '--schema "id long"',
    answers="an object: is_ready, counts (by status), findings (check, status: ok, warning, failed or "
    "skipped; found; remedy).",
)
def check(
    path: Annotated[str | None, option("--path", "The path of the source, as for load(path).")] = None,
    state: Annotated[str | None, option("--state LOCATION", "The stateLocation of the source.")] = None,
    enumerator: Annotated[str, option("--enumerator", "The option enumerator.")] = "files",
    reader: Annotated[str | None, option("--reader", "The option reader.")] = None,
    schema: Annotated[str | None, option("--schema DDL", "The schema, as for .schema(...).")] = None,
    given_options: Annotated[
        list[str] | None,
        option("--option NAME=VALUE", "Any other option of the source, as for .option(...). Repeatable."),
    ] = None,
    spark: Annotated[
        bool, option("--spark", "Start a Spark session, and check every executor. The next three imply it.")
    ] = False,
    master: Annotated[str | None, option("--master URL", "The cluster, as for spark-submit.")] = None,
    conf: Annotated[
        list[str] | None, option("--conf NAME=VALUE", "A setting of Spark, as for spark-submit. Repeatable.")
    ] = None,
    properties_file: Annotated[
        str | None, option("--properties-file FILE", "A file of settings, as for spark-submit.")
    ] = None,
    timeout: Annotated[
        float, option("--timeout SECONDS", "Maximum time for Spark to start, and for all executors.", seconds)
    ] = 120.0,
    remote: Annotated[
        str | None, option("--remote URL", "Like --spark, on a Spark Connect server: sc://...")
    ] = None,
    *,
    files: FileSystem,
) -> Answer:
    """Check for causes of failing queries: versions, Java, locations, rights, savepoint, listing, schema.

    If the enumerator defines its own checks, they run too: of a database and its permissions, for example.
    With --spark each executor is checked: the build of flip27-source, Python, packages, the clock, free disk;
    whether it can open the reader, reaches the data, and shares the state location with the driver.
    Probe files are deleted afterwards. The exit code is 3 if a check failed.
    """
    pairs(conf, "--conf")
    of_cluster = spark or bool(master or conf or properties_file)
    if remote is not None and of_cluster:
        raise typer.BadParameter("give either --remote, or --spark with its options", param_hint="--remote")
    settings = SessionSettings(
        remote=remote, master=master, conf=conf or (), properties_file=properties_file, timeout_s=timeout
    )
    given = {"enumerator": enumerator, "path": path, "stateLocation": state, "reader": reader}
    options = {name: value for name, value in given.items() if value is not None}
    others = source_options(given_options, files.storage)
    own = {name.lower() for name, value in options.items() if (name, value) != ("enumerator", "files")}
    if twice := [name for name in others if name.lower() in own]:
        raise typer.BadParameter(f"{twice[0]} is given twice", param_hint="--option")
    options |= others
    wants_source = enumerator != "files" or any(
        value is not None for value in (path, state, reader, schema, given_options)
    )
    is_remote = remote is not None or (of_cluster and settings.server is not None)
    findings = list(machine(java=not is_remote))
    try:
        with session(settings) if of_cluster or remote is not None else nullcontext() as running:
            if running is not None:
                findings.append(package_version("spark", "pyspark", running.version, OLDEST_PYSPARK))
            checked = SourceCheck(options, schema, running)
            if wants_source:
                findings += checked.findings()
            if running is not None:
                findings += of_executors(running, checked, timeout)
    except Flip27Error as error:
        findings.append(failure("spark", error))
    return _answer(findings)


def of_executors(spark: SparkSession, checked: SourceCheck, timeout_s: float) -> Iterator[Finding]:
    """The findings of every executor, which looks at the same source."""
    own = {name: installed_version(name) for name in required_packages()} | {"pyspark": pyspark_version()}
    source, token = checked.source, uuid.uuid4().bytes
    if source is None:
        yield from executors(spark, None, own, timeout_s)
        return
    task = ExecutorTask(
        options=checked.options,
        schema=checked.schema,
        file=checked.first,
        token=token,
        needs_state=report_demand(source) is not ReportDemand.NONE,
    )
    location = source.options[STATE_LOCATION]
    if location is None or not checked.has_state:
        yield from executors(spark, task, own, timeout_s)
        return
    with shared_probe(location, source.options.with_prefix("storage."), token) as (folder, store):
        place = store.location if isinstance(store, LocalStore) else None

        def sees(executor: str) -> bool:
            try:
                return store.read_surely(f"{folder}/{executor}") == token
            except StateError:
                return False

        yield from executors(spark, replace(task, folder=folder, state=place), own, timeout_s, sees)


class SourceCheck:
    """The checks of a source on this machine, and what the executors need of it.

    Attributes:
        source: None until it is resolved. has_state: whether its state location can be used.
        first: a file that was listed.
        schema: the given one, or the one that a start finds; None until it is known.
    """

    def __init__(self, options: dict[str, str], ddl: str | None, spark: SparkSession | None) -> None:
        self.options = options
        self._ddl = ddl
        self._spark = spark
        self.source: Source | None = None
        self.has_state = False
        self.first: FileSplit | None = None
        self.schema: pa.Schema | None = None
        self._is_chosen = False
        self._has_looked = False

    def findings(self) -> Iterator[Finding]:
        """All findings; the reader that the names of files do not tell is the last one."""
        unknown: Exception | None = None
        try:
            kind = find_enumerator(self.options["enumerator"])
            # The options of its reader are not known yet, but servers are asked now, all at once.
            known = Options.parse(self.options, (*CORE_OPTIONS, *kind.options), knows_all=False)
            location = known[STATE_LOCATION]
            state = None if location is None else state_location(location, known.with_prefix("storage."))
            root = asked_root(known) if issubclass(kind, FilesEnumerator) else None
            if named_reader(self.options, kind) is None:
                unknown = self._choose_reader(known, needs_path=root is not None)
            self.source = source = Source.resolve(self.options)
        except Flip27Error as error:
            # Without the reader, its options are unknown too.
            yield failure("options", error) if unknown is None else failure("reader", unknown)
            return
        has_failed = False
        for finding in self._of_source(source, state, root):
            has_failed = has_failed or finding.status is Status.FAILED
            yield finding
        if isinstance(unknown, AccessError) and not has_failed:
            found = f"not chosen: {unknown.what}, and a start waits until files are listed"
            yield skipped("reader", found, "give it with --reader")
        elif unknown is not None and not has_failed:
            yield failure("reader", unknown)

    def _choose_reader(self, known: Options, *, needs_path: bool) -> Exception | None:
        """Add the reader that a start chooses to the options; the error if there is none."""
        reader, error = None, None
        if has_path(known) or not needs_path:
            try:
                reader = answered(path_of(known), lambda: reader_by_names(self.options))
            except Exception as raised:  # noqa: BLE001 - file systems raise any error
                error = raised
        self._is_chosen = reader is not None
        self.options = {"reader": reader or ANY_READER} | self.options
        return error

    def _of_source(
        self, source: Source, state: Iterator[Finding] | None, root: Callable[[], Listing] | None
    ) -> Iterator[Finding]:
        yield finding_of("options", lambda: _created(source, is_chosen=self._is_chosen))
        yield from self._of_state(source, state)
        savepoint = source.options[SAVEPOINT]
        if savepoint is not None:
            yield finding_of("savepoint", lambda: self._of_savepoint(source, savepoint))
        checks = own_checks(source)
        if checks is not None:
            yield from self._own_checks(source, checks)
            yield from chain_in_order(source)
        elif root is None:
            yield skipped("path", f"the enumerator {source.enumerator_name} does not read files")
        else:
            found, self.first = source_path(source.options, root)
            yield from found
            yield from queues(source.options)
            if self.first is not None and source.reader_name != ANY_READER:
                first = self.first
                yield finding_of("schema", lambda: self._fits(source, first))
                if source.options[EVENT_TIME_ORDER]:
                    yield finding_of(EVENT_TIME, lambda: backlog_in_order(source))
        if self._ddl is not None and not self._has_looked:
            yield finding_of("schema", lambda: self._fits(source))

    def _of_state(self, source: Source, state: Iterator[Finding] | None) -> Iterator[Finding]:
        if state is not None:
            found = list(state)
            self.has_state = found[0].status is Status.OK
            yield from found
        elif report_demand(source) is ReportDemand.REQUIRED:
            yield failed("state location", "not given, and tasks write reports to it", "give it with --state")
        else:
            yield skipped("state location", "not given", "give it with --state")

    def _of_savepoint(self, source: Source, location: str) -> Finding:
        state = source.options[STATE_LOCATION]
        if state is not None and not self.has_state:
            return skipped("savepoint", "not read, because the state location has failed", "see there")
        storage = source.options.with_prefix("storage.")
        found = answered(
            redacted(location), lambda: open_savepoint(location, lambda at: open_store(at, storage))
        )
        store = None if state is None else open_store(state, storage)
        codec = SnapshotCodec(source.enumerator_type, source.reader_type)
        try:
            restored = restored_savepoint(source, found, store, codec, is_claimed=True)
        except IncompatibleStateError as error:  # each difference has a line
            said = error.what.replace(":\n    ", ": ").replace("\n    ", "; ")
            return failed("savepoint", said, error.remedy)
        if restored is None:
            remedy = "correct what differs, unless this is intended (allowNonRestoredState=true)"
            return warning(
                "savepoint", f"{found.location} does not fit: a query starts from the beginning", remedy
            )
        new_enumerator(source, restored.snapshot).close()
        known = found.document
        said = f"checkpoint {known.checkpoint_id} of {known.source.uid} can be restored"
        return ok("savepoint", f"{said}, by a query that has no checkpoint of its own")

    def _own_checks(self, source: Source, checks: type[ChecksSource]) -> Iterator[Finding]:
        first: Finding | None = None
        try:
            for finding in own_findings(source, checks):
                first = first or finding
                yield finding
        except Exception as error:  # noqa: BLE001 - the libraries of sources raise any error
            wrong = failure(source.enumerator_name, error)
            first = first or wrong
            yield wrong
        if schema_finder(source) is None:
            return
        if self._ddl is None and first is not None and first.status is Status.FAILED:
            # A server that is down or silent would be waited for once more.
            yield skipped("schema", f"not looked up, because {first.check} has failed", first.remedy)
        else:
            yield finding_of("schema", lambda: self._fits(source))

    def _fits(self, source: Source, first: FileSplit | None = None) -> Finding:
        """Whether the given schema, or the one that a start finds, fits the reader and the first file."""
        self._has_looked = True
        if self._ddl is None and not self.has_state and source.options[STATE_LOCATION] is not None:
            # A start looks there first, and a server that is silent would be waited for once more.
            return skipped("schema", "not looked up, because the state location has failed", "see there")
        if self._ddl is None and not has_own_schema(source):
            return skipped(
                "schema", f"reader {source.reader_name} needs one, and none is given", "give --schema"
            )
        try:
            self.schema = schema = self._found_or_parsed(source)
        except SparkOnlyError as error:
            return skipped("schema", f"only Spark can parse it: {error}", "add --spark to use Spark's parser")
        if first is not None:
            return _schema_fits(source, schema, first)
        kind = source.enumerator_type
        if self._ddl is not None and issubclass(kind, ChecksGivenSchema):
            kind.check_given_schema(schema, source.options)
        if self._ddl is None or not issubclass(source.reader_type, FindsSchema):
            return ok("schema", columns_text(schema))
        opened: Any = source.reader_type()
        opened.open(SourceReaderContext(options=source.options, schema=schema))
        opened.close()
        return ok("schema", f"{len(schema)} columns fit the reader {source.reader_name}")

    def _found_or_parsed(self, source: Source) -> pa.Schema:
        if self._ddl is None:
            try:
                return schema_of(source, records=False)
            except SchemaError as error:
                remedy = f"if .schema(...) is set, give it with --schema; {error.remedy}"
                raise SchemaError(error.what, remedy=remedy) from error
        if self._spark is not None:
            return spark_schema(self._spark, self._ddl)
        try:
            return parse_columns(self._ddl, as_spark=True)
        except SparkOnlyError:
            raise
        except ValueError as error:
            raise wrong_schema(error) from error


def _created(source: Source, *, is_chosen: bool) -> Finding:
    """Create the coordinator and the enumerator, which refuse options that contradict each other."""
    if has_path(source.options) or not issubclass(source.enumerator_type, FilesEnumerator):
        new_enumerator(source).close()
    why = ", chosen as at a start, because no reader is given" if is_chosen else ""
    return ok("options", f"enumerator {source.enumerator_name}, reader {source.reader_name}{why}")


def _schema_fits(source: Source, schema: pa.Schema, split: FileSplit) -> Finding:
    """Read the beginning of a file with the schema, as in a task."""
    first = first_rows(source, schema, split)
    if first is None:
        return warning("schema", f"{split.path} has no rows to test the schema", "use a file with rows")
    said = f"{len(schema)} columns; the first rows of {split.path} match the schema"
    empty = []
    if isinstance(first, pa.RecordBatch) and first.num_rows:
        columns = zip(first.schema, first.columns, strict=True)
        empty = [field.name for field, column in columns if column.null_count == first.num_rows]
    if empty:
        remedy = (
            "check the names and types of these columns: a column is null if the file does not have it, or "
            "has another type"
        )
        told = reader_for(split.path)
        if told is not None and told != source.reader_name:
            remedy = f"use the reader {told}, which the name of the file tells; or {remedy}"
        return warning("schema", f"{said}, but these columns contain only null: {', '.join(empty)}", remedy)
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
