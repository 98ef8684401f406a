"""The column ``value`` of records, decoded as the options say; what becomes of values that do not decode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from flip27_source.errors import SplitReadError
from flip27_source.options import Option, Options
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.datetimes.formats import DATETIME_OPTIONS
from flip27_source.readers.json_lines.options import JSON_DIALECT_OPTIONS
from flip27_source.readers.kafka.decoding.options import DECODING_OPTIONS, ON_RECORD_ERROR, VALUE_FORMAT
from flip27_source.readers.kafka.decoding.value_schemas import value_decoder
from flip27_source.readers.kafka.record_columns import Run
from flip27_source.source_options import TIME_ZONE

VALUE = "value"

VALUE_OPTIONS: tuple[Option[Any], ...] = (
    *DECODING_OPTIONS, TIME_ZONE, *DATETIME_OPTIONS, *JSON_DIALECT_OPTIONS,
)  # fmt: skip


def decodes_values(options: Options) -> bool:
    """Whether values are decoded."""
    return options[VALUE_FORMAT] is not None


class ValueColumn:
    """Decodes the values of blocks of records.

    Raises:
        SchemaError: the values cannot have the type that the schema has. OptionError: an option is missing.
    """

    def __init__(self, context: SourceReaderContext) -> None:
        options = context.options
        time_zone = options[TIME_ZONE] or context.time_zone
        self._decoder = value_decoder(context.schema.field(VALUE).type, options, time_zone)
        self._fails = options[ON_RECORD_ERROR] == "fail"

    def decoded(self, values: pa.Array, runs: Sequence[Run]) -> pa.Array:
        """The decoded values; null where a value does not decode, and that is allowed.

        Args:
            values: the values of all runs, in order.

        Raises:
            SplitReadError: a value does not decode.
        """
        decoded = self._decoder.decode(values)
        if decoded.failures and self._fails:
            raise _not_decoded(decoded.failures, runs)
        return decoded.values


def _not_decoded(failures: Mapping[int, str], runs: Sequence[Run]) -> SplitReadError:
    row = min(failures)
    place = next(place for number, place in enumerate(_places(runs)) if number == row)
    more = f", and {len(failures) - 1} more of the same block" if len(failures) > 1 else ""
    return SplitReadError(
        f"the value of the record {place} does not decode: {failures[row]}{more}",
        remedy="correct the schema, if the value is as it should be; onRecordError=null delivers such "
        "records with a null value; flip27 edit set-position goes on behind the record",
    )


def _places(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        for message in run.messages:
            yield f"{run.topic}/{run.partition} at offset {message.offset()}"
