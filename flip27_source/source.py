"""A source: an enumerator class, a reader class and checked options.

Pure: no pyspark, no I/O beyond importing the classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .discovery import DiscoveringEnumerator
from .enumerator import SplitEnumerator
from .enumerator_mixins import PerformsActions, check_bases
from .errors import OptionError
from .file_systems.paths import redacted
from .options import Option, Options
from .reader import SplitReader, YieldsProgress
from .registry import ENUMERATOR_GROUP, READER_GROUP, canonical_name, find_enumerator, find_reader
from .schemas.inference import FindsSchema
from .source_options import (
    ACTION_OPTIONS,
    CORE_OPTIONS,
    DISCOVERY_INTERVAL,
    DISCOVERY_RETRIES,
    ENUMERATOR,
    FOUND_SCHEMA_OPTIONS,
    PATH,
    READER,
    READER_BOUNDED_OPTIONS,
    SCHEMA_EVOLUTION_MODE,
    UID,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source that ``format("flip27")`` and its options describe.

    Attributes:
        enumerator_name, reader_name: as given, or the class name for registered classes.
        uid: names the source within its state location.
    """

    enumerator_type: type[SplitEnumerator[Any]]
    reader_type: type[SplitReader[Any]]
    enumerator_name: str
    reader_name: str
    uid: str
    options: Options

    @property
    def is_repeatable(self) -> bool:
        """Whether its splits give the same rows when they are read again (R16)."""
        return self.enumerator_type.repeatable and self.reader_type.repeatable

    @property
    def description(self) -> str:
        """The source as people see it: ``flip27[files orders s3://bucket/orders]``; without credentials."""
        uid = "" if self.uid == self.enumerator_name else self.uid
        parts = (self.enumerator_name, uid, redacted(self.options.get(PATH.name) or ""))
        return f"flip27[{' '.join(part for part in parts if part)}]"

    @classmethod
    def resolve(
        cls,
        raw_options: Mapping[str, str],
        *,
        enumerator: type[SplitEnumerator[Any]] | None = None,
        reader: type[SplitReader[Any]] | None = None,
        schema_is_given: bool = True,
    ) -> Source:
        """Find the classes and check the options.

        Args:
            raw_options: option names and values, as Spark passes them.
            enumerator, reader: registered classes, instead of names in options.
            schema_is_given: False if the schema is inferred: new columns are added by default, because the
                sample may miss some.

        Raises:
            OptionError, RegistryError, ContractError: an option or a class is invalid.
        """
        names = {key.lower(): value for key, value in raw_options.items()}
        enumerator_name = names.get(ENUMERATOR.name)
        if enumerator is None:
            if enumerator_name is None:
                raise OptionError(
                    "option enumerator is not set",
                    remedy='add .option("enumerator", "files"), or another enumerator',
                )
            enumerator = find_enumerator(enumerator_name)
        check_bases(enumerator)
        reader_name = names.get(READER.name, enumerator.default_reader)
        if reader is None:
            if reader_name is None:
                raise OptionError(
                    f"option reader is not set, and {enumerator.__name__} has no default reader",
                    remedy='add .option("reader", "json"), or csv, parquet, text, binary, '
                    "package.module:Class",
                )
            reader = find_reader(reader_name)
        options = Options.parse(raw_options, declared_options(enumerator, reader))
        options = options.with_values(enumerator.implied_options(options))
        if not schema_is_given and options.get(SCHEMA_EVOLUTION_MODE.name, "none") is None:
            options = options.with_values({SCHEMA_EVOLUTION_MODE: "addNewColumns"})
        name = canonical_name(ENUMERATOR_GROUP, enumerator_name) or enumerator.__name__
        return cls(
            enumerator_type=enumerator,
            reader_type=reader,
            enumerator_name=name,
            reader_name=canonical_name(READER_GROUP, reader_name) or reader.__name__,
            uid=options[UID] or name.rpartition(":")[2],
            options=options,
        )


def declared_options(
    enumerator: type[SplitEnumerator[Any]], reader: type[SplitReader[Any]]
) -> tuple[Option[Any], ...]:
    """Every option that a source of these classes takes."""
    core = CORE_OPTIONS
    if not issubclass(enumerator, DiscoveringEnumerator):
        core = tuple(option for option in core if option not in (DISCOVERY_INTERVAL, DISCOVERY_RETRIES))
    if issubclass(reader, YieldsProgress):
        core = (*core, *READER_BOUNDED_OPTIONS)
    if issubclass(enumerator, PerformsActions):
        core = (*core, *ACTION_OPTIONS)
    if issubclass(reader, FindsSchema) or issubclass(enumerator, FindsSchema):
        own = {option.name for option in (*enumerator.options, *reader.options)}
        core = (*core, *(option for option in FOUND_SCHEMA_OPTIONS if option.name not in own))
    return (*core, *enumerator.options, *reader.options)
