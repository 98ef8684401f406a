"""SourceUnderTest: the source for a run or a check, before its options are checked.

Holds what ``format("flip27")`` receives: options, classes and a schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

import pyarrow as pa

from ..enumerator import SplitEnumerator
from ..errors import SchemaError
from ..reader import SplitReader
from ..schemas.source_reader import reader_by_names
from ..schemas.source_schema import schema_of
from ..source import Source


@dataclass(frozen=True, kw_only=True)
class SourceUnderTest:
    """A source as given by its author.

    Attributes:
        options: as for ``.option(name, text)``.
        enumerator, reader: classes, instead of the options with these names.
        schema: the Arrow schema of the DataFrame; None for the reader's default, or an inferred one.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    enumerator: type[SplitEnumerator[Any]] | None = None
    reader: type[SplitReader[Any]] | None = None
    schema: pa.Schema | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.schema, pa.Schema | None):
            raise SchemaError(
                f"the schema is {self.schema!r}, a {type(self.schema).__name__}, not an Arrow schema",
                remedy='pass schema=pa.schema([("id", pa.int64()), ("name", pa.string())]) after '
                "import pyarrow as pa",
            )

    def resolve(self) -> Source:
        """The source with its classes resolved and its options checked.

        Raises:
            OptionError: an option is invalid.
            RegistryError: a class is not found.
        """
        return Source.resolve(
            self.options,
            enumerator=self.enumerator,
            reader=self.reader,
            reader_by_names=None if self.reader else reader_by_names(self.options, self.enumerator),
            schema_is_given=self.schema is not None,
        )

    def arrow_schema(self) -> pa.Schema:
        """The given schema, the reader's default, or one that is inferred as in Spark.

        Raises:
            SchemaError: no schema is given, and none can be determined.
        """
        return schema_of(self.resolve()) if self.schema is None else self.schema

    def with_options(self, **more: str) -> Self:
        """This source with further options; they replace options of the same name, ignoring case."""
        names = {name.lower() for name in more}
        kept = {name: value for name, value in self.options.items() if name.lower() not in names}
        return replace(self, options={**kept, **more})

    def without_option(self, name: str) -> Self:
        """This source without an option, ignoring case."""
        kept = {other: value for other, value in self.options.items() if other.lower() != name.lower()}
        return replace(self, options=kept)


GivenSource: TypeAlias = SourceUnderTest | Mapping[str, str] | None
"""A source for the functions of this package: options only, or a SourceUnderTest."""


def under_test(
    source: GivenSource,
    *,
    enumerator: type[SplitEnumerator[Any]] | None = None,
    reader: type[SplitReader[Any]] | None = None,
    schema: pa.Schema | None = None,
) -> SourceUnderTest:
    """``source`` as a SourceUnderTest, with the other arguments."""
    base = source if isinstance(source, SourceUnderTest) else SourceUnderTest(options=dict(source or {}))
    return SourceUnderTest(
        options=base.options,
        enumerator=enumerator or base.enumerator,
        reader=reader or base.reader,
        schema=base.schema if schema is None else schema,
    )
