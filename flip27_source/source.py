"""A source: an enumerator class, a reader class and checked options.

Pure: no pyspark, no I/O beyond importing the classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from .discovery import DiscoveringEnumerator
from .enumerator import SplitEnumerator
from .enumerator_mixins import ComposedOfSources, FollowsEventTime, PerformsActions, ReadsInStep, check_bases
from .errors import ContractError, OptionError, RegistryError
from .file_systems.paths import redacted
from .options import Option, Options
from .reader import ComposedOfReaders, ReadsEventTimeBuckets, SplitReader, YieldsProgress
from .registry import ENUMERATOR_GROUP, READER_GROUP, canonical_name, find_enumerator, find_reader
from .schemas.inference import FindsSchema
from .source_options import (
    ACTION_OPTIONS,
    ALIGNMENT_GROUP,
    CORE_OPTIONS,
    DISCOVERY_OPTIONS,
    ENUMERATOR,
    EVENT_TIME_ORDER,
    FOUND_SCHEMA_OPTIONS,
    MAX_EVENT_TIME_DRIFT,
    PATH,
    READER,
    READER_BOUNDED_OPTIONS,
    READER_BY_NAMES,
    REPLAY_SPEED,
    SCHEMA_EVOLUTION_MODE,
    TARGET_BACKLOG_DURATION,
    TARGET_BATCH_DURATION,
    UID,
    WATERMARK_DELAY,
)

_PATHS = frozenset({"path", "paths"})
_OF_PATHS = "files"
"""The enumerator of a source with a path that names none."""


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
        """Whether every split gives the same rows when it is read again (R16)."""
        by_split: Any = self.reader_type.is_repeatable
        is_same = by_split is SplitReader.is_repeatable
        return is_same and self.enumerator_type.repeatable and self.reader_type.repeatable

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
        reader_by_names: str | None = None,
        schema_is_given: bool = True,
    ) -> Source:
        """Find the classes and check the options.

        Args:
            raw_options: option names and values, as Spark passes them.
            enumerator, reader: registered classes, instead of names in options.
            reader_by_names: the reader that was chosen by the names of files, if the user names none.
            schema_is_given: False if the schema is inferred: new columns are added by default, because the
                sample may miss some.

        Raises:
            OptionError, RegistryError, ContractError: an option or a class is invalid.
        """
        enumerator, name = chosen_enumerator(raw_options, enumerator)
        reader_name = named_reader(raw_options, enumerator)
        implied: dict[Option[Any], Any] = {}
        if reader is None:
            if reader_name is None and reader_by_names is not None:
                reader_name = implied[READER_BY_NAMES] = reader_by_names
            if reader_name is None:
                raise OptionError(
                    f"option reader is not set, and {enumerator.__name__} has no default reader",
                    remedy='add .option("reader", "json"), or csv, parquet, text, binary, '
                    "package.module:Class",
                )
            reader = reader_class(enumerator, reader_name)
        options = Options.parse(raw_options, declared_options(enumerator, reader))
        options = options.with_values({**implied, **enumerator.implied_options(options)})
        _check_targets(options, reader)
        check_event_time_order(options, enumerator, reader)
        check_horizon(options, enumerator)
        if not schema_is_given and options.get(SCHEMA_EVOLUTION_MODE.name, "none") is None:
            options = options.with_values({SCHEMA_EVOLUTION_MODE: "addNewColumns"})
        return cls(
            enumerator_type=enumerator,
            reader_type=reader,
            enumerator_name=name,
            reader_name=canonical_name(READER_GROUP, reader_name) or reader.__name__,
            uid=uid_of(options, name),
            options=options,
        )


def chosen_enumerator(
    raw_options: Mapping[str, str], enumerator: type[SplitEnumerator[Any]] | None = None
) -> tuple[type[SplitEnumerator[Any]], str]:
    """The enumerator that the options name, unless a class is given, and its name.

    Raises:
        OptionError, RegistryError, ContractError: it is not named, not found, or not valid.
    """
    names = {key.lower(): value for key, value in raw_options.items()}
    name = names.get(ENUMERATOR.name)
    if enumerator is None:
        if name is None and names.keys() & _PATHS:
            name = _OF_PATHS
        if name is None:
            raise OptionError(
                "option enumerator is not set, and there is no path",
                remedy='give .load(path) the path of the files, or add .option("enumerator", ...): kafka, '
                "postgres, sql, http, or another enumerator",
            )
        enumerator = find_enumerator(name)
    if issubclass(enumerator, ComposedOfSources):
        enumerator = enumerator.composed(names)
    check_bases(enumerator)
    for given, count in Counter(enumerator.position_names.values()).items():
        if count > 1:
            raise ContractError(
                f"{enumerator.__qualname__} gives several fields the name {given}",
                remedy="give each path in position_names a name of its own",
            )
    return enumerator, canonical_name(ENUMERATOR_GROUP, name) or enumerator.__name__


def named_reader(raw_options: Mapping[str, str], enumerator: type[SplitEnumerator[Any]]) -> str | None:
    """The reader that the options name, or that the enumerator brings; None if there is none."""
    names = {key.lower(): value for key, value in raw_options.items()}
    return names.get(READER.name, enumerator.default_reader)


def reader_class(enumerator: type[SplitEnumerator[Any]], name: str) -> type[SplitReader[Any]]:
    """The class of the reader with this name, for a source with this enumerator.

    Raises:
        RegistryError: the name is unknown, or the class cannot be imported.
        OptionError: only one of the two consists of sources.
    """
    found = find_reader(name)
    if issubclass(found, ComposedOfReaders) is not issubclass(enumerator, ComposedOfSources):
        raise OptionError(
            f"option reader is {name}, and the enumerator is {enumerator.__qualname__}",
            remedy="remove the option reader: each source of a chain has a reader of its own, such as "
            "hybrid.1.reader, and no other source has the reader of a chain",
        )
    return found.composed(enumerator) if issubclass(found, ComposedOfReaders) else found


def stored_enumerator(name: str, start_options: Mapping[str, str]) -> type[SplitEnumerator[Any]]:
    """The enumerator's class of a stored source, by the name and the options that its state has.

    Raises:
        RegistryError: the class cannot be found here.
    """
    kind = find_enumerator(name)
    if not issubclass(kind, ComposedOfSources):
        return kind
    try:
        return kind.composed({option.lower(): text for option, text in start_options.items()})
    except OptionError as error:
        raise RegistryError(f"the sources of {name} are not known: {error.what}") from error


def uid_of(options: Options, enumerator_name: str) -> str:
    """The name of a source within its state location."""
    return options[UID] or enumerator_name.rpartition(":")[2]


def declared_options(
    enumerator: type[SplitEnumerator[Any]], reader: type[SplitReader[Any]]
) -> tuple[Option[Any], ...]:
    """Every option that a source of these classes takes."""
    core = CORE_OPTIONS
    if not issubclass(enumerator, DiscoveringEnumerator):
        core = tuple(option for option in core if option not in DISCOVERY_OPTIONS)
    if issubclass(reader, YieldsProgress):
        core = (*core, *READER_BOUNDED_OPTIONS)
    if issubclass(enumerator, PerformsActions):
        core = (*core, *ACTION_OPTIONS)
    if issubclass(reader, FindsSchema) or issubclass(enumerator, FindsSchema):
        own = {option.name for option in (*enumerator.options, *reader.options)}
        core = (*core, *(option for option in FOUND_SCHEMA_OPTIONS if option.name not in own))
    return (*core, *enumerator.options, *reader.options)


def check_event_time_order(
    options: Options, enumerator: type[SplitEnumerator[Any]], reader: type[SplitReader[Any]]
) -> None:
    """Refuse eventTimeOrder for a source whose splits cannot be put in order before they are read.

    Raises:
        OptionError: they cannot, or an option needs that order.
    """
    if not options[EVENT_TIME_ORDER]:
        if options[WATERMARK_DELAY] is not None:
            raise OptionError(
                f"option {WATERMARK_DELAY.name} is set, and {EVENT_TIME_ORDER.name} is not",
                remedy=f"set {EVENT_TIME_ORDER.name} to true, or remove {WATERMARK_DELAY.name}",
            )
        return
    # The sources of a chain are looked at one by one.
    if issubclass(enumerator, ComposedOfSources):
        return
    if options.get("eventTimeBucket") is not None and not issubclass(reader, ReadsEventTimeBuckets):
        raise OptionError(
            f"option eventTimeBucket is set, and {reader.__qualname__} cannot read the rows of a bucket",
            remedy="remove it, and delay the watermark by what flip27 check tells; readers of buckets are "
            "parquet, orc, and your own with ReadsEventTimeBuckets",
        )
    kind = enumerator.resolve_split_type()
    kinds = get_args(kind) or (kind,)
    is_whole = enumerator.bound_split is SplitEnumerator.bound_split and not issubclass(
        reader, YieldsProgress
    )
    if not issubclass(enumerator, ReadsInStep) and not (
        is_whole and all(hasattr(one, "event_time") for one in kinds)
    ):
        raise OptionError(
            f"option {EVENT_TIME_ORDER.name} is true, and the splits of {enumerator.__qualname__} "
            + ("have no event_time" if is_whole else "are not read whole, each in one batch"),
            remedy=f"remove {EVENT_TIME_ORDER.name}; files and kafka have it, and enumerators of your own "
            "whose splits have an attribute event_time (EventTimeRange or None)",
        )


def check_horizon(options: Options, enumerator: type[SplitEnumerator[Any]]) -> None:
    """Refuse a horizon for a source whose splits have no event times.

    Raises:
        OptionError: they have none, or there is nothing that the sources of a group wait for.
    """
    bounds = [one.name for one in (MAX_EVENT_TIME_DRIFT, REPLAY_SPEED) if options[one] is not None]
    if not bounds and options[ALIGNMENT_GROUP] is not None:
        raise OptionError(
            f"option {ALIGNMENT_GROUP.name} is {options[ALIGNMENT_GROUP]}, and neither "
            f"{MAX_EVENT_TIME_DRIFT.name} nor {REPLAY_SPEED.name} is set",
            remedy=f"set {MAX_EVENT_TIME_DRIFT.name} for each source of the group, or remove the option",
        )
    # The sources of a chain are looked at one by one.
    if not bounds or issubclass(enumerator, ComposedOfSources | FollowsEventTime):
        return
    if not options.get(EVENT_TIME_ORDER.name, False):
        raise OptionError(
            f"option {bounds[0]} is set, and the event times of the splits of {enumerator.__qualname__} are "
            "not known",
            remedy=f"remove it; files have event times with {EVENT_TIME_ORDER.name}, and enumerators of your "
            "own with FollowsEventTime, or with splits that have event_time",
        )


def _check_targets(options: Options, reader: type[SplitReader[Any]]) -> None:
    """Refuse targets for the duration of batches that cannot be followed."""
    batch_s, backlog_s = options[TARGET_BATCH_DURATION], options[TARGET_BACKLOG_DURATION]
    if batch_s is not None and issubclass(reader, YieldsProgress):
        raise OptionError(
            f"option {TARGET_BATCH_DURATION.name} is set, and {reader.__qualname__} decides itself how much "
            "it reads",
            remedy="remove it; maxSplitDuration limits how long such a reader reads in a batch",
        )
    if backlog_s is not None and (batch_s is None or backlog_s < batch_s):
        shown = "not set" if batch_s is None else f"{batch_s:g} s"
        raise OptionError(
            f"option {TARGET_BACKLOG_DURATION.name} is {backlog_s:g} s, and {TARGET_BATCH_DURATION.name} "
            f"is {shown}",
            remedy=f"set {TARGET_BATCH_DURATION.name} to at most the same duration",
        )
