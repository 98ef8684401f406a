"""The schema that Spark infers from the first lines of JSON files, or from their documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SchemaError
from flip27_source.options import Options
from flip27_source.readers.files.line_blocks import first_lines
from flip27_source.readers.files.malformed_records import CORRUPT_RECORD_COLUMN, MODE
from flip27_source.readers.files.separated_text import whole_text
from flip27_source.readers.json_lines.options import MULTI_LINE
from flip27_source.readers.json_lines.schema import (
    FieldTwiceError,
    JsonTypes,
    refuse_names_that_differ_in_case,
)


def schema_of_sample(splits: Sequence[FileSplit], options: Options) -> pa.Schema | None:
    """The columns of the files; None if there are none.

    Raises:
        SchemaError: an object has a field twice, or names differ only in case.
    """
    malformed = None if options[MODE] == "DROPMALFORMED" else options[CORRUPT_RECORD_COLUMN]
    types = replace(JsonTypes.of(options), refuses_twice=True)
    looked_at: list[str] = []
    try:
        found = types.of_lines(_sampled_lines(splits, options, looked_at), malformed=malformed)
    except FieldTwiceError as twice:
        raise SchemaError(
            f"{looked_at[-1]}: an object has the field {twice} twice",
            remedy="give the schema; then the last value of such a field is used, as in Spark",
        ) from None
    refuse_names_that_differ_in_case(found)
    return found if len(found) else None


def _sampled_lines(splits: Sequence[FileSplit], options: Options, looked_at: list[str]) -> Iterator[bytes]:
    """The lines for schema inference; the path of their file is first appended to ``looked_at``."""
    for split in splits:
        looked_at.append(split.path)
        if options[MULTI_LINE]:
            yield whole_text(split, options)
        else:
            yield from first_lines(split, options).split(b"\n")
