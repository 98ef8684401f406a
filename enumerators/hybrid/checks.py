"""ChainChecks: what a chain tells and refuses before it starts. It may do I/O where the hooks allow that."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source.enumerator import SplitEnumerator
from flip27_source.enumerator_mixins import ComposedOfSources, ReadsInStep
from flip27_source.enumerators.hybrid.hooks import is_overridden
from flip27_source.enumerators.hybrid.parts import Part
from flip27_source.enumerators.hybrid.switch import BEGINNING, check_forms, has_switch
from flip27_source.errors import OptionError, SchemaError
from flip27_source.options import Option, Options
from flip27_source.reader import YieldsProgress
from flip27_source.schemas.inference import FindsSchema
from flip27_source.source import Source
from flip27_source.source_checks import ChecksBeforeStart, ChecksGivenSchema, ChecksSource, Finding, ok_unless
from flip27_source.source_options import (
    CORE_OPTIONS,
    EVENT_TIME_ORDER,
    MAX_EVENT_TIME_DRIFT,
    PATH,
    SCHEMA_EVOLUTION_MODE,
    WATERMARK_DELAY,
)


class ChainChecks(ComposedOfSources, ChecksSource, ChecksBeforeStart, ChecksGivenSchema, FindsSchema):
    """Asks each part.

    Attributes:
        parts: the parts.
    """

    parts: ClassVar[tuple[Part, ...]]

    @classmethod
    def implied_options(cls, options: Options) -> Mapping[Option[Any], Any]:
        """What the parts imply for the whole chain.

        Raises:
            OptionError: an option of a part is invalid, or a part needs a place that the one before it does
                not tell.
        """
        if (options.get(SCHEMA_EVOLUTION_MODE.name) or "none") != "none":
            raise OptionError(
                f"option {SCHEMA_EVOLUTION_MODE.name} is {options[SCHEMA_EVOLUTION_MODE]}, and the sources "
                "of a chain have one schema, which does not change",
                remedy=f"remove {SCHEMA_EVOLUTION_MODE.name}",
            )
        if options[PATH] is not None:
            raise OptionError(
                f"option path is {options[PATH]}, and the sources of a chain have paths of their own",
                remedy="set hybrid.1.path",
            )
        _check_who_bounds(cls.parts)
        implied: dict[Option[Any], Any] = {SCHEMA_EVOLUTION_MODE: "none"}
        before: Source | None = None
        has_times = False
        for part in cls.parts:
            source = part.source(options)
            is_in_step = (
                issubclass(part.enumerator_type, ReadsInStep) and options[MAX_EVENT_TIME_DRIFT] is not None
            )
            has_times |= is_in_step or source.options.get(EVENT_TIME_ORDER.name, False)
            with part.naming_itself():
                _check_switch(part, options, before)
                _check_until(part, options, cls.parts)
                _check_end(part, source, cls.parts)
                own = part.enumerator_type.implied_options(source.options)
            implied |= {option: value for option, value in own.items() if option in CORE_OPTIONS}
            before = source
        if options[WATERMARK_DELAY] is not None and not has_times:
            raise OptionError(
                f"option {WATERMARK_DELAY.name} is set, and no source of the chain tells its event times",
                remedy=f"set {EVENT_TIME_ORDER.name} of a source of files, or {MAX_EVENT_TIME_DRIFT.name} of "
                f"the chain for Kafka; or remove {WATERMARK_DELAY.name}",
            )
        return implied | {EVENT_TIME_ORDER: has_times}

    @classmethod
    def check_before_start(cls, options: Options) -> None:
        for part in cls.parts:
            given = part.source(options).options
            for kind in (part.enumerator_type, part.reader_type):
                if issubclass(kind, ChecksBeforeStart):
                    with part.naming_itself():
                        kind.check_before_start(given)

    @classmethod
    def check_source(cls, options: Options) -> Iterator[Finding]:
        for part in cls.parts:
            given = part.source(options, BEGINNING).options
            kinds: tuple[type, ...] = (part.enumerator_type, part.reader_type)
            for kind in kinds:
                if issubclass(kind, ChecksBeforeStart):
                    start = functools.partial(kind.check_before_start, given)
                    yield ok_unless(f"{part.title}: {kind.__name__}", "can start", start)
            checks = next((kind for kind in kinds if issubclass(kind, ChecksSource)), None)
            if checks is not None:
                with part.naming_itself():
                    for finding in checks.check_source(given):
                        yield dataclasses.replace(finding, check=f"{part.title}: {finding.check}")

    @classmethod
    def find_schema(cls, options: Options) -> pa.Schema | None:
        """The schema of the parts that know one; the others are read with it.

        Raises:
            SchemaError: two parts have different columns.
        """
        from flip27_source.schemas.source_schema import has_own_schema, schema_of

        first: tuple[Part, pa.Schema] | None = None
        for part in cls.parts:
            source = part.source(options)
            if not has_own_schema(source):
                continue
            with part.naming_itself():
                schema = schema_of(source, records=False)
            if first is None:
                first = (part, schema)
            elif found := _difference(first[1], schema):
                raise SchemaError(
                    f"{first[0].title} and {part.title} have different columns: {found}",
                    remedy="give the schema that both have by .schema(...), or options by which they have "
                    "the same columns",
                )
        return None if first is None else first[1]

    @classmethod
    def check_given_schema(cls, schema: pa.Schema, options: Options) -> None:
        """Compare a schema that the user gives with the parts whose columns do not depend on it.

        Raises:
            SchemaError: a part has other columns.
        """
        for part in cls.parts:
            fixed = part.reader_type.default_schema(part.source(options).options)
            if fixed is not None and (found := _difference(schema, fixed)):
                raise SchemaError(
                    f"the schema that is given and {part.title} have different columns: {found}",
                    remedy=f"give the schema of {part.title}, or options by which it has these columns",
                )


def _check_who_bounds(parts: tuple[Part, ...]) -> None:
    by_reader = [part.title for part in parts if issubclass(part.reader_type, YieldsProgress)]
    default = SplitEnumerator.bound_split
    by_enumerator = [part.title for part in parts if part.enumerator_type.bound_split is not default]
    if by_reader and by_enumerator:
        raise OptionError(
            f"the reader of {by_reader[0]} decides how far it reads in a batch, and for {by_enumerator[0]} "
            "its enumerator does: one chain cannot have both",
            remedy="read the two sources by two queries",
        )


def _check_end(part: Part, source: Source, parts: tuple[Part, ...]) -> None:
    why = part.enumerator_type.left_at_end(source.options)
    if part.number < len(parts) and why is not None:
        raise OptionError(
            f"a source follows, which starts when the data has ended, and {why[0]}", remedy=why[1]
        )


def _check_switch(part: Part, options: Options, before: Source | None) -> None:
    uses = [name for name, text in part.texts(options).items() if has_switch(text)]
    if not uses:
        return
    if before is None:
        raise OptionError(
            f"option hybrid.{part.number}.{uses[0]} contains {{switch}}, and no source is before it",
            remedy="set it to a fixed value",
        )
    kind = before.enumerator_type.switch_kind(before.options)
    if kind is not None:
        check_forms(part.texts(options), part.declared(), is_time=kind == "time")
    else:
        raise OptionError(
            f"option hybrid.{part.number}.{uses[0]} contains {{switch}}, and "
            f"hybrid.{part.number - 1} ({before.enumerator_name}) does not tell where it ends",
            remedy=f"for files, set hybrid.{part.number - 1}.eventTimeOrder=true and eventTimeColumn or "
            "eventTimePattern; an enumerator of your own tells it by switch_position",
        )


def _check_until(part: Part, options: Options, parts: tuple[Part, ...]) -> None:
    if not part.reads_until_next(options):
        return
    following = parts[part.number] if part.number < len(parts) else None
    why = None
    if following is None:
        why = "no source follows it"
    elif not part.source(options).options.get(EVENT_TIME_ORDER.name, False):
        why = "its eventTimeOrder is not true"
    elif not is_overridden(following.enumerator_type, SplitEnumerator, "beginning"):
        why = f"{following.title} does not tell where its data begins"
    elif not following.uses_switch(options):
        why = f"{following.title} does not start at a {{switch}}"
    if why is not None:
        raise OptionError(
            f"option {part.option_name('readUntil')} is next, and {why}", remedy="set it to end"
        )


def _difference(one: pa.Schema, other: pa.Schema) -> str | None:
    """The first difference in the names, the order or the types of columns; None if there is none."""
    for place in range(max(len(one), len(other))):
        left = one.field(place) if place < len(one) else None
        right = other.field(place) if place < len(other) else None
        if left is None or right is None or (left.name, left.type) != (right.name, right.type):
            shown = ["none" if at is None else f"{at.name} {at.type}" for at in (left, right)]
            return f"column {place + 1} is {shown[0]}, and {shown[1]}"
    return None
