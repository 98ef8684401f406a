"""The schema of a source if the user gives none: the reader's own, the recorded one, or an inferred one.

Runs in a planning process, and on executors that find new columns. Without a ``stateLocation`` nothing can
be recorded, and the schema is inferred at each start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ..coordination.split_rules import SplitErrorPolicy
from ..errors import Flip27Error, NewColumnsError, SchemaError, SplitReadError
from ..log import LOG
from ..snapshots.store import Store, open_store
from ..source import Source
from ..source_options import SCHEMA_EVOLUTION_MODE, STATE_LOCATION
from .ddl import parse_columns
from .inference import FindsSchema, InfersSchema, SamplesSplits, SplitSample
from .new_columns import RECORDING_MODES, WIDENING_MODE
from .recorded_schemas import SchemaOwner, SchemaStorage, check_types, data_of

_GIVE = 'add .schema("id long, name string, ...")'


def schema_of(source: Source, *, records: bool = True) -> pa.Schema:
    """The schema of the DataFrame, which is inferred and recorded at the first start.

    Args:
        records: False to write nothing.

    Raises:
        SchemaError: there is nothing to infer the schema from.
        Flip27Error: the source or the state location cannot be read.
    """
    own = source.reader_type.default_schema(source.options)
    if own is not None:
        return own
    finder = schema_finder(source)
    reader: Any = source.reader_type
    if not has_own_schema(source):
        raise SchemaError(
            f"reader {source.reader_name} needs a schema, and no schema is set",
            remedy=f"{_GIVE} before .load()",
        )
    is_recorded = finder is None or finder.records_schema(source.options)
    storage = schema_storage(source) if is_recorded else None
    recorded = None if storage is None else storage.newest()
    if recorded is not None:
        schema = recorded.schema
    else:
        schema = _inferred(source) if finder is None else _found(source, finder)
        if records and schema is not None and storage is not None:
            schema = storage.record(schema).schema
    if finder is not None:
        return finder.complete_found(schema, source.options)
    schema = reader.complete_schema(schema, source.options)
    if schema is None:
        raise SchemaError(
            "no schema is set, and there is no file yet to infer it from",
            remedy=f'{_GIVE} before .load(), or .option("schemaHints", ...) with the known columns, or start '
            "when the first files exist",
        )
    return schema


def has_own_schema(source: Source) -> bool:
    """Whether a schema can be found if the user gives none."""
    if schema_finder(source) is not None or source.reader_type.default_schema(source.options) is not None:
        return True
    return issubclass(source.reader_type, InfersSchema) and issubclass(source.enumerator_type, SamplesSplits)


def schema_finder(source: Source) -> type[FindsSchema] | None:
    """The class of a source that finds its schema, such as that of a table; None if none does."""
    kinds: tuple[type, ...] = (source.reader_type, source.enumerator_type)
    return next((kind for kind in kinds if issubclass(kind, FindsSchema)), None)


@contextmanager
def _errors_of(called: str) -> Iterator[None]:
    """Turn the errors of libraries that a source calls into a SchemaError."""
    try:
        yield
    except Flip27Error:
        raise
    except Exception as error:
        raise SchemaError(
            f"{called} failed: {type(error).__name__}: {error}",
            remedy=f"fix the cause, or {_GIVE} before .load()",
        ) from error


def _found(source: Source, finder: type[FindsSchema]) -> pa.Schema:
    name = f"find_schema of {finder.__qualname__}"
    with _errors_of(name):
        schema: Any = finder.find_schema(source.options)
    if schema is None:
        raise SchemaError(
            f"no schema was given, and {name} found no schema",
            remedy=f"{_GIVE} before .load(), or wait until the source has columns",
        )
    remedy = "return a pyarrow.Schema of the types of Spark, with one column or more, each name once"
    if not isinstance(schema, pa.Schema):
        raise SchemaError(f"{name} returned a {type(schema).__name__}", remedy=remedy)
    if not len(schema):
        raise SchemaError(f"{name} found no column", remedy=remedy)
    known: dict[str, str] = {}
    for place, column in enumerate(schema.names):
        other = known.setdefault(column.lower(), column)
        if len(known) <= place:
            raise SchemaError(
                f"{name} found the columns {other} and {column}, which Spark takes for one",
                remedy=f"{_GIVE} with one of them before .load(), or rename one of them in the source",
            )
    check_types(schema, name, remedy)
    return schema


def schema_storage(source: Source, store: Store | None = None) -> SchemaStorage | None:
    """The storage of a source's recorded schemas; None without a state location."""
    location = source.options[STATE_LOCATION]
    if store is None and location is not None:
        store = open_store(location, source.options.with_prefix("storage."))
    owner = SchemaOwner(
        enumerator=source.enumerator_name, reader=source.reader_name, data=data_of(source.options)
    )
    return None if store is None else SchemaStorage(store, source.uid, owner)


def with_new_columns(source: Source, error: NewColumnsError, store: Store | None = None) -> NewColumnsError:
    """The error for the user; in the modes that add columns the wider schema is recorded first.

    Tasks of one batch may find different columns: each adds its own to the recorded schema.
    """
    mode = source.options.get(SCHEMA_EVOLUTION_MODE.name)
    if mode not in RECORDING_MODES:
        return error
    storage = schema_storage(source, store)
    if storage is None:
        hints = (
            f'set .option("schemaHints", "{error.columns}"), or' if schema_finder(source) is None else "set"
        )
        remedy = f"{hints} a stateLocation, where they are recorded automatically; then start the query again"
        return NewColumnsError(error.what, columns=error.columns, remedy=remedy)
    recorded = storage.add(parse_columns(error.columns), widens=mode == WIDENING_MODE)
    remedy = (
        f"load the source and start the query again: version {recorded.version} of its schema has the new "
        "columns. No row of the batch was delivered, and the batch is read again with the new columns"
    )
    return NewColumnsError(error.what, columns=error.columns, remedy=remedy)


def _inferred(source: Source) -> pa.Schema | None:
    reader: Any = source.reader_type
    enumerator: Any = source.enumerator_type
    options = source.options
    with _errors_of("the inference of the schema"):
        sample = enumerator.sample_splits(options, reader.sample_size(options))
        try:
            return reader.infer_schema(sample, options)
        except SplitReadError as error:
            if SplitErrorPolicy.of(source).outcome(error) is None:
                raise
            sample = replace(sample, splits=tuple(_readable(source, sample.splits)))
            return reader.infer_schema(sample, options)


def _readable(source: Source, splits: Iterable[Any]) -> Iterator[Any]:
    """The splits that can be read; the others are also skipped or quarantined when their batch is read."""
    reader: Any = source.reader_type
    for split in splits:
        try:
            reader.infer_schema(SplitSample(splits=(split,)), source.options)
        except SplitReadError as error:
            if SplitErrorPolicy.of(source).outcome(error) is None:
                raise
            LOG.warning("split %s is not used to infer the schema: %s", split.split_id, error)
        else:
            yield split
