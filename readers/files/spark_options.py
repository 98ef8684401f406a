"""Options of Spark's readers that flip27 recognises, but does not support.

``default_only``: only Spark's default value is accepted. ``without_effect``: the option limits the sample
that Spark uses to infer a schema; flip27 uses ``samplingFiles`` instead.
"""

from __future__ import annotations

from typing import Any, Final

from flip27_source.options import Option, ReadingOption

_MARK: Final = "Spark's option"


def default_only(name: str, default: str, instead: str, *also: str) -> Option[Any]:
    """An option that accepts only Spark's default; ``also`` has other spellings of the default."""

    def parse(value: str) -> str:
        if value.strip().lower() not in {text.lower() for text in (default, *also)}:
            raise ValueError("supported by Spark's reader, not by flip27")
        return value

    return ReadingOption(
        name=name, parse=parse, default=default, doc=f"{_MARK}, but only its default is supported; {instead}."
    )


def without_effect(name: str) -> Option[Any]:
    """An option that limits Spark's sample for schema inference."""
    return ReadingOption(
        name=name,
        parse=str,
        default=None,
        doc=f"{_MARK}, without effect: schemas are inferred from samplingFiles files.",
    )


def status(option: Option[Any]) -> str:
    """``supported``, ``without effect`` or ``default only``."""
    if not option.doc.startswith(_MARK):
        return "supported"
    return "without effect" if "without effect" in option.doc else "default only"


_AS_STRING = "read the column as a string and convert it with to_date or to_timestamp"
_LEAVE_OUT = "leave it out"

_TEXTS: tuple[Option[Any], ...] = (
    default_only("locale", "en-US", _LEAVE_OUT),
    default_only("timeFormat", "HH:mm:ss", _AS_STRING),
    without_effect("samplingRatio"),
)

SPARK_JSON: tuple[Option[Any], ...] = (
    *_TEXTS,
    default_only("encoding", "UTF-8", "write the files in UTF-8", "utf8"),
    default_only("charset", "UTF-8", "write the files in UTF-8", "utf8"),
    default_only("lineSep", r"\n", "end lines with a newline", "\n"),
    default_only("singleVariantColumn", "none", "read the lines with reader=text and use parse_json"),
    default_only("explodeEmbeddedArray", "true", _LEAVE_OUT),
)

SPARK_CSV: tuple[Option[Any], ...] = (
    *_TEXTS,
    default_only("lineSep", r"\n", "end lines with a newline", "\n"),
    default_only("columnPruning", "true", _LEAVE_OUT),
    default_only("maxColumns", "20480", _LEAVE_OUT),
    default_only("maxCharsPerColumn", "-1", "maxLineBytes limits the length of lines"),
    default_only("singleVariantColumn", "none", _LEAVE_OUT),
)

SPARK_TEXT: tuple[Option[Any], ...] = (
    default_only("encoding", "UTF-8", "lines keep their bytes, so decode them with Spark", "utf8"),
)

SPARK_PARQUET: tuple[Option[Any], ...] = (
    without_effect("mergeSchema"),
    default_only("datetimeRebaseMode", "EXCEPTION", "dates of the old calendar are refused"),
    default_only("int96RebaseMode", "EXCEPTION", "dates of the old calendar are refused"),
)

SPARK_ORC: tuple[Option[Any], ...] = (without_effect("mergeSchema"),)

SPARK_AVRO: tuple[Option[Any], ...] = (
    default_only("avroSchema", "", "columns are matched to the schema by name"),
    default_only("avroSchemaUrl", "", "columns are matched to the schema by name"),
    default_only("positionalFieldMatching", "false", "columns are matched to the schema by name"),
    default_only("ignoreExtension", "true", "use pathGlobFilter"),
    default_only("mode", "FAILFAST", "set onSplitError=quarantine"),
    default_only("datetimeRebaseMode", "EXCEPTION", _LEAVE_OUT),
    default_only("recursiveFieldMaxDepth", "-1", "remove such columns from the schema"),
    default_only("enableStableIdentifiersForUnionType", "false", "members are called member0, member1, ..."),
    default_only("stableIdentifierPrefixForUnionType", "member_", _LEAVE_OUT),
)
