"""The schema of a source if the user gives none: the reader's own, the recorded one, or an inferred one.

Runs in a planning process, and on executors that find new columns. Without a ``stateLocation`` nothing can
be recorded, and the schema is inferred at each start.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ..coordination.split_errors import SplitErrorPolicy
from ..errors import Flip27Error, NewColumnsError, SchemaError, SplitReadError
from ..snapshots.store import Store, open_store
from ..source import Source
from ..source_options import STATE_LOCATION
from .ddl import columns_text, parse_columns, type_name
from .inference import FindsSchema, InfersSchema, SamplesSplits, SplitSample
from .new_columns import RECORDING_MODES, WIDENING_MODE, evolved
from .recorded_schemas import SchemaStorage

_log = logging.getLogger("flip27_source")


def schema_of(source: Source) -> pa.Schema:
    """The schema of the DataFrame, which is inferred and recorded at the first start.

    Raises:
        SchemaError: there is nothing to infer the schema from.
        Flip27Error: the source or the state location cannot be read.
    """
    own = source.reader_type.default_schema(source.options)
    if own is not None:
        return own
    finder = _finder(source)
    if finder is not None:
        return _found(source, finder)
    reader: Any = source.reader_type
    if not (issubclass(reader, InfersSchema) and issubclass(source.enumerator_type, SamplesSplits)):
        raise SchemaError(
            f"reader {source.reader_name} needs a schema, and no schema is set",
            remedy='add .schema("id long, name string, ...") before .load()',
        )
    storage = schema_storage(source)
    recorded = None if storage is None else storage.newest()
    inferred = _inferred(source, storage) if recorded is None else recorded.schema
    schema = reader.complete_schema(inferred, source.options)
    if schema is None:
        raise SchemaError(
            "no schema is set, and there is no file yet to infer it from",
            remedy='add .schema("id long, name string, ...") before .load(), or '
            '.option("schemaHints", ...) with the known columns, or start when the first files exist',
        )
    return schema


def _finder(source: Source) -> type[FindsSchema] | None:
    kinds: tuple[type, ...] = (source.reader_type, source.enumerator_type)
    return next((kind for kind in kinds if issubclass(kind, FindsSchema)), None)


def _found(source: Source, finder: type[FindsSchema]) -> pa.Schema:
    """The recorded schema; if there is none, the one that ``finder`` finds, which is then recorded."""
    storage = schema_storage(source)
    recorded = None if storage is None else storage.newest()
    if recorded is not None:
        return recorded.schema
    try:
        found = finder.find_schema(source.options)
    except Flip27Error:
        raise
    except Exception as error:
        raise SchemaError(
            f"find_schema of {finder.__qualname__} failed: {type(error).__name__}: {error}",
            remedy='fix the cause, or add .schema("id long, name string, ...") before .load()',
        ) from error
    _check_found(finder, found)
    if storage is None:
        return found
    recorded = storage.record(found)
    _log.info("schema of source %s, found and recorded as version %d: %s",
              source.uid, recorded.version, columns_text(recorded.schema))  # fmt: skip
    return recorded.schema


def _check_found(finder: type[FindsSchema], found: Any) -> None:
    name = f"find_schema of {finder.__qualname__}"
    if found is None:
        raise SchemaError(
            f"no schema was given, and {name} found no schema",
            remedy='add .schema("id long, name string, ...") before .load(), or wait until the source has '
            "columns",
        )
    remedy = "return a pyarrow.Schema of the types of Spark, with one column or more, each name once"
    if not isinstance(found, pa.Schema):
        raise SchemaError(f"{name} returned a {type(found).__name__}", remedy=remedy)
    if not len(found):
        raise SchemaError(f"{name} found no column", remedy=remedy)
    seen = set()
    for field in found:
        if field.name.lower() in seen:
            raise SchemaError(f"{name}: the column {field.name.lower()} occurs twice", remedy=remedy)
        seen.add(field.name.lower())
        try:
            type_name(field.type)
        except ValueError as error:
            raise SchemaError(f"{name}: column {field.name}: {error}", remedy=remedy) from None


def evolution_of_inferred(source: Source) -> dict[str, str]:
    """The default of schemaEvolutionMode for an inferred schema, because a sample may miss columns."""
    name = "schemaEvolutionMode"
    return {name: "addNewColumns"} if source.options.get(name, "none") is None else {}


def schema_storage(source: Source, store: Store | None = None) -> SchemaStorage | None:
    """The storage of a source's recorded schemas; None without a state location."""
    location = source.options[STATE_LOCATION]
    if store is None and location is not None:
        store = open_store(location, source.options.with_prefix("storage."))
    return None if store is None else SchemaStorage(store, source.uid)


def with_new_columns(source: Source, error: NewColumnsError, store: Store | None = None) -> NewColumnsError:
    """The error for the user; in the modes that add columns the wider schema is recorded first.

    Tasks of one batch may find different columns: each adds its own to the recorded schema.
    """
    mode = source.options.get("schemaEvolutionMode")
    if mode not in RECORDING_MODES:
        return error
    storage = schema_storage(source, store)
    if storage is None:
        hints = f'set .option("schemaHints", "{error.columns}"), or' if _finder(source) is None else "set"
        remedy = f"{hints} a stateLocation, where they are recorded automatically; then start the query again"
        return NewColumnsError(error.what, columns=error.columns, remedy=remedy)
    version = _record_new(storage, parse_columns(error.columns), widens=mode == WIDENING_MODE)
    remedy = (
        f"load the source and start the query again: version {version} of its schema has the new columns. "
        "No row of the batch was delivered, and the batch is read again with the new columns"
    )
    return NewColumnsError(error.what, columns=error.columns, remedy=remedy)


def _record_new(storage: SchemaStorage, new: pa.Schema, *, widens: bool) -> int:
    while True:
        recorded = storage.newest()
        wider = new if recorded is None else evolved(recorded.schema, new, widens=widens)
        if recorded is not None and wider == recorded.schema:
            return recorded.version
        storage.record(wider, after=recorded)  # if another task was first, the loop repeats


def _inferred(source: Source, storage: SchemaStorage | None) -> pa.Schema | None:
    reader: Any = source.reader_type
    enumerator: Any = source.enumerator_type
    options = source.options
    sample = enumerator.sample_splits(options, reader.sample_size(options))
    try:
        found: pa.Schema | None = reader.infer_schema(sample, options)
    except SplitReadError as error:
        if SplitErrorPolicy.of(source).outcome(error) is None:
            raise
        sample = replace(sample, splits=tuple(_readable(source, sample.splits)))
        found = reader.infer_schema(sample, options)
    if found is None or storage is None:
        return found
    recorded = storage.record(found)
    _log.info("schema of source %s, inferred from %d splits and recorded as version %d: %s",
              source.uid, len(sample.splits), recorded.version, columns_text(recorded.schema))  # fmt: skip
    return recorded.schema


def _readable(source: Source, splits: Iterable[Any]) -> Iterator[Any]:
    """The splits that can be read; the others are also skipped or quarantined when their batch is read."""
    reader: Any = source.reader_type
    for split in splits:
        try:
            reader.infer_schema(SplitSample(splits=(split,)), source.options)
        except SplitReadError as error:
            if SplitErrorPolicy.of(source).outcome(error) is None:
                raise
            _log.warning("split %s is not used to infer the schema: %s", split.split_id, error)
        else:
            yield split
