"""SourceUnderTest: what is to be run or checked, before it is a checked source.

The same that ``format("flip27")`` is given: options, classes and a schema. No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

import pyarrow as pa

from ..enumerator import SplitEnumerator
from ..errors import SchemaError
from ..reader import SplitReader
from ..schemas.source_schema import schema_of
from ..source import Source


@dataclass(frozen=True, kw_only=True)
class SourceUnderTest:
    """A source as its author gives it.

    Attributes:
        options: as for ``.option(name, text)``.
        enumerator, reader: classes that are given rather than named by an option.
        schema: the Arrow schema of the DataFrame; None for the reader's own, or one that is found out.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    enumerator: type[SplitEnumerator[Any]] | None = None
    reader: type[SplitReader[Any]] | None = None
    schema: pa.Schema | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.schema, pa.Schema | None):
            raise SchemaError(
                f"the schema is {self.schema!r}, a {type(self.schema).__name__}: an Arrow schema is needed",
                remedy='give schema=pa.schema([("id", pa.int64()), ("name", pa.string())]), as in '
                "import pyarrow as pa",
            )

    def resolve(self) -> Source:
        """The classes found and the options checked.

        Raises:
            OptionError, RegistryError: with what to do.
        """
        return Source.resolve(self.options, enumerator=self.enumerator, reader=self.reader)

    def arrow_schema(self) -> pa.Schema:
        """The schema that is given, the reader's own, or one that is found out as in Spark.

        Raises:
            SchemaError: there is none of them.
        """
        return schema_of(self.resolve()) if self.schema is None else self.schema

    def with_options(self, **more: str) -> Self:
        """The same with further options; what is set already, in whatever spelling, is replaced."""
        names = {name.lower() for name in more}
        kept = {name: value for name, value in self.options.items() if name.lower() not in names}
        return replace(self, options={**kept, **more})

    def without_option(self, name: str) -> Self:
        """The same without an option, in whatever spelling."""
        kept = {other: value for other, value in self.options.items() if other.lower() != name.lower()}
        return replace(self, options=kept)

    def with_defaults(self, **more: str) -> Self:
        """The same with further options, where they are not set already."""
        names = {name.lower() for name in self.options}
        return self.with_options(**{name: value for name, value in more.items() if name.lower() not in names})


GivenSource: TypeAlias = SourceUnderTest | Mapping[str, str] | None
"""What functions of this package take as a source: options alone, or a whole SourceUnderTest."""


def under_test(
    source: GivenSource,
    *,
    enumerator: type[SplitEnumerator[Any]] | None = None,
    reader: type[SplitReader[Any]] | None = None,
    schema: pa.Schema | None = None,
) -> SourceUnderTest:
    """``source`` with what is given beside it."""
    base = source if isinstance(source, SourceUnderTest) else SourceUnderTest(options=dict(source or {}))
    return SourceUnderTest(
        options=base.options,
        enumerator=enumerator or base.enumerator,
        reader=reader or base.reader,
        schema=base.schema if schema is None else schema,
    )
