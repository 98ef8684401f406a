"""Decodes the column ``value`` of records by the options."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flip27_source.options import Option, Options
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.datetimes.options import DATETIME_OPTIONS
from flip27_source.readers.json_lines.options import JSON_DIALECT_OPTIONS
from flip27_source.readers.kafka.decoding.decoder import Decoded
from flip27_source.readers.kafka.decoding.options import DECODING_OPTIONS, VALUE_FORMAT
from flip27_source.readers.kafka.decoding.value_schemas import value_decoder
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
        SchemaError: the values cannot have the type in the schema.
        OptionError: an option is missing.
    """

    def __init__(self, context: SourceReaderContext) -> None:
        options = context.options
        time_zone = options[TIME_ZONE] or context.time_zone
        self._decoder = value_decoder(context.schema.field(VALUE).type, options, time_zone)

    def decoded(self, values: pa.Array) -> Decoded:
        """The decoded values, null where a value cannot be decoded, and the reasons."""
        return self._decoder.decode(values)
