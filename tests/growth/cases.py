"""What is measured: every option of every file reader, on files for which it makes a difference.

``OPTIONS`` has an entry for each option of each reader; a test fails if one is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from flip27_source.enumerators.files.options import RECURSIVE_FILE_LOOKUP
from flip27_source.options import Options
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.files.reader import FileReader
from flip27_source.readers.files.spark_options import status
from flip27_source.readers.schemas.inference import InfersFileSchema
from flip27_source.registry import find_reader
from flip27_source.schemas.ddl import parse_columns
from flip27_source.schemas.inference import SplitSample
from flip27_source.source_options import PATH
from tests.readers.spark_reading import split_of

from .contents import (
    COLUMNAR,
    COLUMNS_THAT_FIT,
    CSV,
    CSV_DOCUMENTS,
    CSV_SCHEMA,
    JSON,
    JSON_DOCUMENTS,
    JSON_SCHEMA,
    TEXT,
    Write,
)

PATH_OPTIONS = (PATH, RECURSIVE_FILE_LOOKUP)

ALL = ("*",)
"""All contents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One way to use an option.

    Attributes:
        value: the value of the option.
        contents: the names of the contents with which it is used; ``ALL`` for all of them.
        also: other options that it needs.
        columns: columns that are added to the usual schema.
        schema: a schema that replaces the usual one.
        infers: whether a schema is inferred instead of reading rows.
        is_rare: whether only ``make growth`` runs it, because other uses run through the same code.
    """

    value: str
    contents: tuple[str, ...]
    also: Mapping[str, str] = field(default_factory=dict)
    columns: str = ""
    schema: str = ""
    infers: bool = False
    is_rare: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A read of some files with some options; see Use."""

    name: str
    reader: str
    options: Mapping[str, str]
    schema: pa.Schema
    infers: bool
    is_rare: bool
    write: Write
    least_rows: int

    def work(self, folder: Path, rows: int) -> Callable[[], object]:
        """Write files with this many rows to ``folder``; return a function that reads them."""
        folder.mkdir(parents=True)
        self.write(folder, rows)
        splits = tuple(map(split_of, sorted(folder.iterdir())))
        kind = find_reader(self.reader)
        given = self.options | ({"samplingFiles": str(len(splits))} if self.infers else {})
        options = Options.parse(given | {"path": str(folder)}, (*kind.options, *PATH_OPTIONS))
        if self.infers:
            assert issubclass(kind, InfersFileSchema)
            sample = SplitSample(splits=splits, folders=(str(folder),))
            return lambda: kind.infer_schema(sample, options)
        reader = kind()
        assert isinstance(reader, FileReader)
        reader.open(SourceReaderContext(options=options, schema=self.schema, time_zone="Europe/Berlin"))
        return lambda: sum(batch.num_rows for batch in reader.read_together(splits))


MODES = ("good lines", "misfits", "broken lines", "every second line broken", "misfits in every third line")
UNKNOWN = tuple(name for name in JSON if name.startswith("unknown fields"))
LONG = tuple(name for name in (*JSON, *CSV) if name.startswith("one "))
QUOTES = tuple(name for name in CSV if "quote" in name)
CORRUPT = {"columns": "_corrupt_record string"}
RESCUED = {"columns": "rescued string"}
FILES = ("good lines", "files of one line", "one file", "files of one row")
EVERYWHERE: dict[str, list[Use]] = {
    "includeMetadata": [
        Use(value="true", contents=FILES,
            columns="_metadata struct<file_name: string, file_size: long>"),
    ],
    "basePath": [Use(value="/", contents=FILES)],
    "ignoreCorruptFiles": [Use(value="true", contents=("good lines", "one file"))],
}  # fmt: skip
FINDING_OUT: dict[str, list[Use]] = {
    "samplingFiles": [
        Use(value="10", contents=ALL, infers=True, is_rare=True),
        Use(value="10", contents=(*FILES, "unknown fields under new names", "a map", "one wide object"),
            infers=True),
    ],
    "schemaHints": [
        Use(value="id string, extra struct<a: int>", contents=("good lines", "one file", "files of one row"),
            infers=True),
    ],
}  # fmt: skip


def _dates(*, misfits: str, local: str) -> dict[str, list[Use]]:
    """The options of dates and timestamps; ``local`` is a schema with a timestamp_ntz."""
    dates, moment = "dates of a pattern", "dd MMM yyyy HH:mm:ss"
    return {
        "dateFormat": [Use(value="dd/MM/yyyy", contents=(dates, misfits)),
                       Use(value="d/M/yyyy", contents=(dates,))],
        "timestampFormat": [Use(value=moment, contents=(dates,))],
        "timestampNTZFormat": [Use(value=moment, contents=(dates,), schema=local)],
        "enableDateTimeParsingFallback": [
            Use(value="true", contents=(dates, "good lines"), also={"dateFormat": "MM.dd.yy"}),
        ],
    }  # fmt: skip


OPTIONS: dict[str, dict[str, list[Use]]] = {
    "json": {
        **EVERYWHERE,
        **FINDING_OUT,
        "mode": [
            Use(value="PERMISSIVE", contents=ALL, **CORRUPT),
            Use(value="PERMISSIVE", contents=("good lines", "a map", *LONG), columns="m map<string, long>"),
            Use(value="DROPMALFORMED", contents=MODES),
            Use(value="FAILFAST", contents=("good lines", "unknown fields")),
        ],
        "columnNameOfCorruptRecord": [Use(value="bad", contents=MODES, columns="bad string")],
        "timeZone": [Use(value="America/New_York", contents=("good lines", "texts that are no dates"))],
        "maxLineBytes": [Use(value="1g", contents=("good lines", "one long text"))],
        "schemaEvolutionMode": [
            Use(value="rescue", contents=ALL, columns="_rescued_data string"),
            Use(value="addNewColumns", contents=("good lines", "misfits", "broken lines", "single quotes")),
            Use(value="addNewColumnsWithTypeWidening", contents=("good lines", "misfits"),
                columns="_rescued_data string"),
            Use(value="failOnNewColumns", contents=("good lines", "misfits", "broken lines")),
            Use(value="none", contents=("unknown fields",)),
        ],
        "rescuedDataColumn": [Use(value="rescued", contents=(*UNKNOWN, "misfits", *LONG), **RESCUED)],
        "multiLine": [
            Use(value="true", contents=ALL, **CORRUPT),
            Use(value="true", contents=ALL, also={"rescuedDataColumn": "rescued"}, **RESCUED),
            Use(value="true", contents=ALL, infers=True),
        ],
        **_dates(misfits="texts that are no dates", local="at timestamp_ntz"),
        "allowComments": [Use(value="true", contents=("comments", "one long comment", "good lines"))],
        "allowUnquotedFieldNames": [Use(value="true", contents=("names without quotes",))],
        "allowSingleQuotes": [
            Use(value="true", contents=("single quotes",)), Use(value="false", contents=("single quotes",)),
        ],
        "allowNumericLeadingZeros": [Use(value="true", contents=("leading zeros",))],
        "allowNonNumericNumbers": [
            Use(value="true", contents=("words for numbers",)),
            Use(value="false", contents=("words for numbers",)),
        ],
        "allowBackslashEscapingAnyCharacter": [Use(value="true", contents=("odd escapes", "one long text"))],
        "allowUnquotedControlChars": [Use(value="true", contents=("control characters",))],
        "primitivesAsString": [Use(value="true", contents=("good lines", "misfits"), infers=True)],
        "prefersDecimal": [Use(value="true", contents=("good lines", "words for numbers"), infers=True)],
        "inferTimestamp": [Use(value="true", contents=("good lines", "dates of a pattern"), infers=True)],
        "dropFieldIfAllNull": [Use(value="true", contents=("nulls and empty objects",), infers=True)],
    },
    "csv": {
        **EVERYWHERE,
        **FINDING_OUT,
        "header": [
            Use(value="true", contents=("a header", "files of one line", "good lines")),
            Use(value="true", contents=("a header", "blank lines", "comments"), infers=True),
            Use(value="true", contents=("a header with another column",), columns="rescued string",
                also={"rescuedDataColumn": "rescued"}),
        ],
        "sep": [Use(value="\\t", contents=("tabs", "good lines"))],
        "delimiter": [Use(value="\\t", contents=("tabs",))],
        "quote": [
            Use(value="'", contents=("other quotes", "quotes")),
            Use(value="", contents=("quotes", "good lines")),
        ],
        "escape": [
            Use(value='"', contents=("doubled quotes", "escaped quotes", "one long text of quotes")),
            Use(value="|", contents=("doubled quotes",)),
        ],
        "nullValue": [Use(value="NULL", contents=("words for nulls and numbers", "empty texts"))],
        "emptyValue": [Use(value="EMPTY", contents=("empty texts", "blanks around"))],
        "comment": [Use(value="#", contents=("comments", "good lines", "stray quotes"))],
        "encoding": [Use(value="ISO-8859-1", contents=("not UTF-8", "good lines"))],
        "charset": [Use(value="US-ASCII", contents=("not UTF-8",))],
        "enforceSchema": [
            Use(value="false", contents=("a header",), also={"header": "true"}),
            Use(value="true", contents=("a header",), also={"header": "true"}),
        ],
        "mode": [
            Use(value="PERMISSIVE", contents=ALL, **CORRUPT),
            Use(value="DROPMALFORMED", contents=("misfits", "too many fields", "too few fields")),
            Use(value="FAILFAST", contents=("good lines", "quotes")),
        ],
        "columnNameOfCorruptRecord": [
            Use(value="bad", contents=("misfits", "too many fields"), columns="bad string"),
        ],
        "multiLine": [
            Use(value="true", contents=ALL, **CORRUPT),
            Use(value="true", contents=ALL, also={"rescuedDataColumn": "rescued"}, is_rare=True, **RESCUED),
            Use(value="true", also={"rescuedDataColumn": "rescued"}, **RESCUED,
                contents=("too many fields", "misfits", "line ends in quotes and too many fields")),
            Use(value="true", contents=ALL, also={"comment": "#"}, is_rare=True),
            Use(value="true", contents=("comments", "quotes"), also={"comment": "#"}),
            Use(value="true", contents=ALL, also={"ignoreLeadingWhiteSpace": "true"}, is_rare=True),
            Use(value="true", contents=ALL, also={"unescapedQuoteHandling": "STOP_AT_CLOSING_QUOTE"},
                is_rare=True),
            Use(value="true", contents=ALL, also={"unescapedQuoteHandling": "BACK_TO_DELIMITER"},
                is_rare=True),
            Use(value="true", contents=("good lines", "line ends in quotes"), infers=True),
        ],
        "ignoreLeadingWhiteSpace": [
            Use(value="true", contents=ALL, is_rare=True),
            Use(value="true", contents=("blanks around", "quotes", "good lines", *LONG)),
        ],
        "ignoreTrailingWhiteSpace": [
            Use(value="true", contents=ALL, is_rare=True),
            Use(value="true", contents=("blanks around", "quotes", "good lines", *LONG)),
        ],
        "unescapedQuoteHandling": [
            Use(value="STOP_AT_CLOSING_QUOTE", contents=(*QUOTES, *LONG)),
            Use(value="BACK_TO_DELIMITER", contents=(*QUOTES, *LONG)),
            Use(value="SKIP_VALUE", contents=(*QUOTES, *LONG)),
            Use(value="RAISE_ERROR", contents=("good lines", "quotes")),
            Use(value="STOP_AT_DELIMITER", contents=ALL, is_rare=True),
            Use(value="STOP_AT_DELIMITER", contents=(*QUOTES, *LONG)),
        ],
        "charToEscapeQuoteEscaping": [Use(value="|", contents=("escaped escapes", "escaped quotes"))],
        "timeZone": [Use(value="America/New_York", contents=("good lines", "misfits"))],
        "maxLineBytes": [Use(value="1g", contents=("good lines", "one long text"))],
        "schemaEvolutionMode": [
            Use(value="rescue", contents=ALL, columns="_rescued_data string"),
            Use(value="addNewColumns", contents=("good lines", "misfits", "too few fields")),
            Use(value="addNewColumnsWithTypeWidening", contents=("good lines", "misfits"),
                columns="_rescued_data string"),
            Use(value="failOnNewColumns", contents=("good lines", "misfits", "too few fields")),
            Use(value="none", contents=("too many fields",)),
        ],
        "rescuedDataColumn": [
            Use(value="rescued", contents=("misfits", "too many fields", *LONG), **RESCUED),
        ],
        "inferSchema": [
            Use(value="true", contents=ALL, infers=True, is_rare=True),
            Use(value="true", contents=("good lines", "misfits", "one wide line"), infers=True),
        ],
        "preferDate": [
            Use(value="false", contents=("good lines",), also={"inferSchema": "true"}, infers=True),
        ],
        "nanValue": [Use(value="not a number", contents=("words for nulls and numbers",))],
        "positiveInf": [Use(value="+oo", contents=("words for nulls and numbers",))],
        "negativeInf": [Use(value="-oo", contents=("words for nulls and numbers",))],
        **_dates(misfits="misfits", local="id long, name string, at timestamp_ntz"),
    },
    "text": {
        **EVERYWHERE,
        "wholetext": [Use(value="true", contents=("good lines", "files of one line"))],
        "lineSep": [Use(value="||", contents=ALL), Use(value="|", contents=ALL)],
        "header": [
            Use(value="true", contents=ALL),
            Use(value="true", contents=("other separators", "nothing but line ends"), also={"lineSep": "||"}),
        ],
        "comment": [
            Use(value="l", contents=("good lines", "files of one line"), also={"header": "true"}),
        ],
        "maxLineBytes": [Use(value="1g", contents=ALL)],
    },
    "binary": EVERYWHERE,
    **{
        name: {
            **EVERYWHERE,
            **FINDING_OUT,
            "schemaEvolutionMode": [
                Use(value="rescue", contents=ALL, columns="misfit long, _rescued_data string"),
                Use(value="addNewColumns", contents=ALL,
                    schema="id int, name string, place struct<x: long, y: string, w: long>, "
                    "tags array<string>, misfit string, other string"),
                Use(value="none", contents=ALL),
            ],
            "rescuedDataColumn": [Use(value="rescued", contents=ALL, columns="misfit long, rescued string")],
            **({"timeZone": [Use(value="America/New_York", contents=ALL)]} if name == "orc" else {}),
        }
        for name in COLUMNAR
    },
}  # fmt: skip

_COLUMNS = {
    "json": JSON_SCHEMA,
    "csv": CSV_SCHEMA,
    "text": "value string",
    "binary": "path string, modificationTime timestamp, length long, content binary",
    **dict.fromkeys(COLUMNAR, COLUMNS_THAT_FIT),
}
_CONTENTS: dict[str, dict[str, Write]] = {
    "json": JSON, "csv": CSV, "text": TEXT, "binary": TEXT, **COLUMNAR,
}  # fmt: skip
_DOCUMENTS: dict[str, dict[str, Write]] = {"json": JSON_DOCUMENTS, "csv": CSV_DOCUMENTS}
_LEAST_ROWS = dict.fromkeys((*JSON_DOCUMENTS, "one long array of rows"), 200)
"""The smallest numbers of rows for contents that another parser reads if they have few rows."""
READERS = tuple(_COLUMNS)


def options_of(reader: str) -> set[str]:
    """The options that have an effect on a reader."""
    return {option.name for option in find_reader(reader).options if status(option) == "supported"}


def cases() -> Iterator[Case]:
    """All cases of all readers and options."""
    for reader, options in OPTIONS.items():
        for name, uses in options.items():
            for use in uses:
                yield from _cases_of(reader, name, use)


def _cases_of(reader: str, name: str, use: Use) -> Iterator[Case]:
    known = (_DOCUMENTS if name == "multiLine" else _CONTENTS)[reader]
    options = {name: use.value} | use.also
    columns = ", ".join(filter(None, (_COLUMNS[reader], use.columns)))
    shown = ", ".join(f"{key}={value}" for key, value in options.items())
    for content, write in known.items():
        if content in use.contents or use.contents == ALL:
            yield Case(
                name=f"{reader}, {shown}{', inferring a schema' if use.infers else ''}: {content}",
                reader=reader,
                options=options,
                schema=parse_columns(use.schema or columns),
                infers=use.infers,
                is_rare=use.is_rare,
                write=write,
                least_rows=_LEAST_ROWS.get(content, 60),
            )
