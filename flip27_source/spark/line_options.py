"""The options of ``parsed``: the options of Spark's file readers that apply to single lines.

Accepted options go to ``from_csv`` or ``from_json`` unchanged. This module lists the accepted options,
and gives the remedy for each option that cannot work on single lines. Pure: no pyspark.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from flip27_source.errors import OptionError
from flip27_source.options import boolean, one_of
from flip27_source.registry import find_enumerator, find_reader
from flip27_source.source_options import CORE_OPTIONS

FORMATS: Final = ("csv", "json")
MODES: Final = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")

_BOTH = (
    "columnNameOfCorruptRecord", "dateFormat", "enableDateTimeParsingFallback", "encoding", "locale", "mode",
    "singleVariantColumn", "timeFormat", "timeZone", "timestampFormat", "timestampNTZFormat",
)  # fmt: skip
TAKEN: Final[Mapping[str, tuple[str, ...]]] = {
    "csv": (
        *_BOTH, "charset", "charToEscapeQuoteEscaping", "comment", "delimiter", "emptyValue", "escape",
        "header", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "inputBufferSize",
        "maxCharsPerColumn", "maxColumns", "nanValue", "negativeInf", "nullValue", "positiveInf",
        "preferDate", "quote", "sep", "unescapedQuoteHandling",
    ),
    "json": (
        *_BOTH, "charset", "allowBackslashEscapingAnyCharacter", "allowComments", "allowNonNumericNumbers",
        "allowNumericLeadingZeros", "allowSingleQuotes", "allowUnquotedControlChars",
        "allowUnquotedFieldNames",
    ),
}  # fmt: skip
"""The options of Spark's readers that are passed to Spark or implemented here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refused:
    """An option of Spark's reader that is refused, unless its value is ``default``, which is Spark's own."""

    why: str
    remedy: str
    default: str = ""


_ON_STREAM = 'set it on the stream, with .option("{name}", ...) before .load'
_LEAVE_OUT = "leave it out"
_LINE = "the parser gets one line at a time"
_INFERS = _Refused(
    why="the schema is given",
    remedy="leave it out and name all columns in the schema, or use reader={format}, which infers a schema",
    default="false",
)
_SAMPLES = replace(_INFERS, default="1.0")
_WRITES = _Refused(why="it applies only to writing", remedy=_LEAVE_OUT)
_PACKS = _Refused(
    why="the suffix of a file name determines its compression",
    remedy="leave it out: .gz, .bz2 and .zst are decompressed",
)
_SEPARATES = _Refused(why="the stream is already divided into lines", remedy=_ON_STREAM)
_REFUSED: Mapping[str, Mapping[str, _Refused]] = {
    "csv": {
        "multiLine": _Refused(why=_LINE, remedy="use reader=csv with multiLine=true", default="false"),
        "enforceSchema": _Refused(
            why="the names in headers are not compared: columns are matched by position",
            remedy="leave it out, or use reader=csv with enforceSchema=false",
            default="true",
        ),
        "inferSchema": _INFERS,
        "samplingRatio": _SAMPLES,
        "columnPruning": _Refused(
            why="all columns of the schema are parsed", remedy=_LEAVE_OUT, default="true"
        ),
        "lineSep": _SEPARATES,
        **dict.fromkeys(("escapeQuotes", "extension", "quoteAll"), _WRITES),
        **dict.fromkeys(("compression", "codec"), _PACKS),
    },
    "json": {
        "multiLine": _Refused(
            why=_LINE,
            remedy="load the stream with wholetext=true, which makes each file one line; or use reader=json "
            "with multiLine=true",
            default="false",
        ),
        **dict.fromkeys(
            ("dropFieldIfAllNull", "inferTimestamp", "prefersDecimal", "primitivesAsString"), _INFERS
        ),
        "samplingRatio": _SAMPLES,
        "explodeEmbeddedArray": _Refused(
            why=_LINE, remedy="declare the array as a column of the schema, and explode that column"
        ),
        "lineSep": _SEPARATES,
        "useUnsafeRow": _Refused(why="only Spark sets it", remedy=_LEAVE_OUT),
        **dict.fromkeys(
            ("ignoreNullFields", "pretty", "sortKeys", "writeNonAsciiCharacterAsCodePoint"), _WRITES
        ),
        "compression": _PACKS,
    },
}

_ENCODINGS = {"utf-8": "UTF-8", "utf8": "UTF-8", "iso-8859-1": "ISO-8859-1", "us-ascii": "US-ASCII"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOptions:
    """The checked options.

    Attributes:
        format: csv or json.
        mode: the handling of malformed lines.
        header: the given value; None if not set.
        comment: prefix of the lines that are left out; empty if none are.
        encoding: encoding of the lines.
        corrupt_column: name of the column for malformed lines; None if Spark's setting names it.
        variant_column: name of the single variant column for whole lines; None if not set.
        allows_comments: whether JSON may contain comments.
        for_spark: the options for ``from_csv`` or ``from_json``.
    """

    format: str
    mode: str
    header: bool | None
    comment: str
    encoding: str
    corrupt_column: str | None
    variant_column: str | None
    allows_comments: bool
    for_spark: Mapping[str, str]


def line_options(format_name: str, given: Mapping[str, Any]) -> LineOptions:
    """Check the options of ``parsed``.

    Raises:
        OptionError: an option is unknown, cannot work on lines, or has an invalid value.
    """
    if format_name not in FORMATS:
        raise OptionError(
            f"format {format_name!r} is invalid", remedy='give "csv" or "json" as the format of parsed'
        )
    texts = dict(_texts(format_name, given))
    own = {"mode", "header", "encoding", "charset", "columnNameOfCorruptRecord"}
    options = LineOptions(
        format=format_name,
        mode=_parsed(texts, "mode", one_of(*MODES), "PERMISSIVE"),
        header=_parsed(texts, "header", boolean, None),
        comment=texts.get("comment", ""),
        encoding=_encoding(format_name, texts.get("encoding", texts.get("charset", "UTF-8"))),
        corrupt_column=texts.get("columnNameOfCorruptRecord"),
        variant_column=texts.get("singleVariantColumn"),
        allows_comments=_parsed(texts, "allowComments", boolean, False),
        for_spark={name: text for name, text in texts.items() if name not in own},
    )
    if options.header and options.variant_column is not None:
        raise OptionError(
            "options header and singleVariantColumn are both set, but the field names in the header are not "
            "part of a line",
            remedy="leave header out here, which names the fields _c0, _c1, ...; set header on the stream",
        )
    return options


def _texts(format_name: str, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    taken = {name.lower(): name for name in TAKEN[format_name]}
    refused = {name.lower(): name for name in _REFUSED[format_name]}
    seen: dict[str, str] = {}
    for key, value in given.items():
        if value is None:
            continue
        text = _text(key, value)
        name = taken.get(key.lower())
        if name is None and key.lower() in refused:
            _check_refused(format_name, refused[key.lower()], text)
            continue
        if name is None:
            raise _unknown(format_name, key)
        if name in seen:
            raise OptionError(
                f"option {name} is given twice, as {seen[name]} and {key}", remedy="give it once"
            )
        seen[name] = key
        yield name, text


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise OptionError(
        f"option {name} is a {type(value).__name__}", remedy="give a string, a number, True or False"
    )


def _check_refused(format_name: str, name: str, text: str) -> None:
    refused = _REFUSED[format_name][name]
    if not refused.default or text.strip().lower() != refused.default:
        raise OptionError(
            f"option {name} of Spark's {format_name} reader is not an option of parsed: {refused.why}",
            remedy=refused.remedy.format(format=format_name, name=name),
        )


def _unknown(format_name: str, key: str) -> OptionError:
    other = next(kind for kind in FORMATS if kind != format_name)
    if key.lower() in {name.lower() for name in (*TAKEN[other], *_REFUSED[other])}:
        return OptionError(
            f"option {key} belongs to Spark's {other} reader; the format is {format_name}",
            remedy=f'leave it out, or give "{other}" as the format',
        )
    tables = (CORE_OPTIONS, find_reader("text").options, find_enumerator("files").options)
    if any(key.lower() == option.name.lower() for table in tables for option in table):
        return OptionError(
            f"option {key} belongs to the stream that is passed to parsed", remedy=_ON_STREAM.format(name=key)
        )
    names = {name.lower(): name for name in (*TAKEN[format_name], *_REFUSED[format_name])}
    near = difflib.get_close_matches(key.lower(), names, n=3, cutoff=0.6)
    meant = f"; did you mean {', '.join(names[name] for name in near)}?" if near else ""
    return OptionError(
        f"option {key} is not an option of Spark's {format_name} reader{meant}",
        remedy=f"use one of: {', '.join(sorted(TAKEN[format_name], key=str.lower))}",
    )


def _parsed(texts: Mapping[str, str], name: str, parse: Any, default: Any) -> Any:
    if name not in texts:
        return default
    try:
        return parse(texts[name])
    except ValueError as error:
        raise OptionError(f"option {name} has the value {texts[name]!r}", remedy=f"{error}") from None


def _encoding(format_name: str, encoding: str) -> str:
    known = _ENCODINGS.get(encoding.strip().lower())
    if known is None or (format_name == "json" and known != "UTF-8"):
        names = "UTF-8" if format_name == "json" else "UTF-8, ISO-8859-1 or US-ASCII"
        raise OptionError(
            f"option encoding has the value {encoding!r}; supported for {format_name}: {names}",
            remedy=f"write the files in {names}",
        )
    return known
