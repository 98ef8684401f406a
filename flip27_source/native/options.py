"""The options of ``native_batches``: those of flip27, and those that Spark's reader gets.

Pure: no pyspark, no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flip27_source.errors import OptionError
from flip27_source.options import Option, Options, ReadingOption, maybe_json
from flip27_source.source_options import SCHEMA_EVOLUTION_MODE

_STORAGE = "storage."


def _prefixes(value: str) -> Mapping[str, str]:
    prefixes = maybe_json(value)
    if not isinstance(prefixes, dict) or not all(
        old and isinstance(new, str) for old, new in prefixes.items()
    ):
        raise ValueError('a JSON object of prefixes is expected, such as {"s3://in/": "s3://in/"}')
    return prefixes


HADOOP_PREFIXES: Option[Mapping[str, str]] = ReadingOption(
    name="hadoopPrefixes",
    parse=_prefixes,
    default={},
    default_text="`s3://` as `s3a://`, `gcs://` as `gs://`",
    doc="A JSON object: prefixes of paths as flip27 writes them, and as Hadoop does.",
)
_FORMATS = ("parquet", "orc", "json", "csv", "xml", "avro", "text", "binaryfile", "image")
NATIVE_OPTIONS: tuple[Option[Any], ...] = (HADOOP_PREFIXES, SCHEMA_EVOLUTION_MODE)

_REFUSED = {
    "ignorecorruptfiles": "set it on the stream, whose state lists quarantined and ignored files",
    "ignoreextension": "leave it out: Spark would leave out Avro files with other names, without a record",
    "ignoremissingfiles": "set it on the stream, whose state lists quarantined and ignored files",
    "modifiedafter": "set it on the stream, which decides which files are read",
    "modifiedbefore": "set it on the stream, which decides which files are read",
    "pathglobfilter": "set it on the stream, which decides which files are read",
    "recursivefilelookup": "set it on the stream, which decides which files are read",
    "path": "the files are those of the batch: leave it out",
    "paths": "the files are those of the batch: leave it out",
    "basepath": "set it on the stream, which knows where partitions begin",
    "pathrewrites": "it is called hadoopPrefixes now",
}
_OWN = frozenset(option.name.lower() for option in NATIVE_OPTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeOptions:
    """The options, parsed.

    Attributes:
        own: those of flip27, with ``storage.*``.
        spark: those for Spark's reader.
    """

    own: Options
    spark: Mapping[str, str]

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> NativeOptions:
        """Separate flip27's options from Spark's.

        Raises:
            OptionError: an option is not one of native reads, or has an invalid value.
        """
        texts = {name: _text(value) for name, value in raw.items() if value is not None}
        for name in texts:
            remedy = _REFUSED.get(name.lower())
            if remedy is not None:
                raise OptionError(f"option {name} cannot be an option of native_batches", remedy=remedy)
        own = {name for name in texts if name.lower() in _OWN or name.lower().startswith(_STORAGE)}
        return cls(
            own=Options.parse({name: texts[name] for name in own}, NATIVE_OPTIONS),
            spark={name: text for name, text in texts.items() if name not in own},
        )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, dict) else str(value)


def kind_of(format_name: str) -> str:
    """The short name of a format of Spark, in lower case; Spark still takes some classes for formats."""
    name = format_name.lower()
    if name.startswith(("org.apache.spark.", "com.databricks.spark.")):
        return next((part for part in name.split(".")[3:] if part in _FORMATS), name)
    return name
