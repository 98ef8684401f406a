"""The parts of a chain: their classes, the types in which their values are stored, and their options. Pure.

The classes of a chain follow from its options: the split of each part is a struct of its own, and the options
of part 2 are those of its source with ``hybrid.2.`` before their names.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Optional, get_args, get_type_hints

import msgspec

from flip27_source.enumerator import SplitEnumerator
from flip27_source.enumerator_mixins import PerformsActions, ReadsInStep
from flip27_source.enumerators.hybrid.options import READ_UNTIL
from flip27_source.enumerators.hybrid.switch import Switch, check_placeholders, has_switch, with_switch
from flip27_source.errors import Flip27Error, IncompatibleStateError, OptionError
from flip27_source.event_time import EventTimeRange, event_time_of
from flip27_source.events import SourceEvent
from flip27_source.options import PASS_THROUGH_PREFIXES, Change, FirstStartOption, Option, Options
from flip27_source.reader import SplitReader
from flip27_source.registry import find_reader
from flip27_source.source import (
    Source,
    check_event_time_order,
    check_horizon,
    chosen_enumerator,
    declared_options,
    named_reader,
)
from flip27_source.source_options import (
    CORE_OPTIONS,
    DISCOVERY_INTERVAL,
    DISCOVERY_RETRIES,
    ENUMERATOR,
    EVENT_TIME_COLUMN,
    EVENT_TIME_ORDER,
    MAX_EVENT_TIME_DRIFT,
    MAX_PARTITION_BYTES,
    PATH,
    READER,
    TIME_ZONE,
    UID,
    WATERMARK_DELAY,
)
from flip27_source.split import SplitSize, size_of

PREFIX = "hybrid."
_NAME = re.compile(r"hybrid\.(\d{1,3})\.(.+)", re.DOTALL)
_OWN = (
    PATH, ENUMERATOR, READER, TIME_ZONE, MAX_PARTITION_BYTES, DISCOVERY_INTERVAL, DISCOVERY_RETRIES,
    EVENT_TIME_ORDER, EVENT_TIME_COLUMN,
)  # fmt: skip
"""The common options that each part has for itself; all others apply to the whole chain."""
_MOST_PARTS = 100
_VERSIONS = 1000
"""The version of a chain's values is a number with one digit of this base for each part."""


class PartSplit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A split of a part of a chain.

    Attributes:
        split_id: the number of the part, a colon, and the id of the split within its source.
        split: the split of its source.
        switch: where the part started, if its options contain that place: its reader has them too.
    """

    split_id: str
    split: Any
    switch: Switch | None
    number: ClassVar[int] = 0

    @property
    def size(self) -> SplitSize:
        """The size of the split of its source."""
        return size_of(self.split)

    @property
    def event_time(self) -> EventTimeRange | None:
        """The event times of the split of its source."""
        return event_time_of(self.split)


@dataclass(frozen=True)
class PartEvent(SourceEvent):
    """An event between the enumerator and the readers of one part."""

    event: Any
    switch: Switch | None = None
    number: ClassVar[int] = 0


class PartAction(msgspec.Struct, frozen=True):
    """An action of the enumerator of a part."""

    action: Any
    number: ClassVar[int] = 0


@dataclass(frozen=True, kw_only=True)
class Part:
    """One source of a chain.

    Attributes:
        number: from 1.
        split_type: of its splits, as the chain has them. action_type: of its actions; None if it has none.
        events: the types of its events, both ways, each with that of the same event in the chain.
    """

    number: int
    name: str
    enumerator_type: type[SplitEnumerator[Any]]
    reader_name: str
    reader_type: type[SplitReader[Any]]
    split_type: type[PartSplit]
    action_type: type[PartAction] | None
    events: Mapping[type[SourceEvent], type[PartEvent]] = field(compare=False)

    @classmethod
    def of(cls, number: int, raw: Mapping[str, str]) -> Part:
        """The part that these options describe.

        Raises:
            OptionError, RegistryError, ContractError: its enumerator or reader is not set or invalid.
        """
        if raw.get(ENUMERATOR.name, "").lower() == PREFIX.rstrip("."):
            raise OptionError(
                f"option {PREFIX}{number}.enumerator is hybrid, and a chain cannot be a part of a chain",
                remedy="give the sources of both chains, in order, as parts of one",
            )
        kind, name = chosen_enumerator(raw)
        reader_name = named_reader(raw, kind)
        if reader_name is None:
            raise OptionError(
                f"option {PREFIX}{number}.reader is not set, and {name} has no reader of its own",
                remedy=f'add .option("{PREFIX}{number}.reader", "json"), or csv, parquet, text, binary, '
                "package.module:Class",
            )
        return _part_of_classes(number, name, kind, reader_name, find_reader(reader_name))

    @property
    def state_field(self) -> str:
        """The name of its state in that of the chain."""
        return f"part{self.number}"

    @property
    def title(self) -> str:
        """How messages name it: ``hybrid.1 (files)``."""
        return f"{PREFIX}{self.number} ({self.name})"

    def option_name(self, name: str) -> str:
        """The name in the chain of an option of its source."""
        return f"{PREFIX}{self.number}.{name}"

    def position_names(self) -> Iterator[tuple[str, str]]:
        """The names of the fields in its splits: those that its source gives them, or their own."""
        given = self.enumerator_type.position_names
        kind = self.enumerator_type.resolve_split_type()
        for one in get_args(kind) or (kind,):
            for name in getattr(one, "__struct_fields__", None) or get_type_hints(one):
                if name != "split_id" and name not in given.values():
                    yield f"split.{name}", given.get(name, name)
        for path, name in given.items():
            yield f"split.{path}", name

    def split_id(self, inner: str) -> str:
        """The id in the chain of a split of its source."""
        return f"{self.number}:{inner}"

    def wrapped(self, split: Any, switch: Switch | None) -> PartSplit:
        """A split of its source, as a split of the chain."""
        return self.split_type(split_id=self.split_id(split.split_id), split=split, switch=switch)

    def wrapped_event(self, event: SourceEvent, switch: Switch | None = None) -> SourceEvent:
        """An event of its source, as an event of the chain; one that nobody takes as it is."""
        kind = self.events.get(type(event))
        return event if kind is None else kind(event, switch)

    def changed(self, before: PartSplit, split: Any) -> PartSplit:
        """A split of the chain with another split of its source, or the same one at another position."""
        return self.wrapped(split, before.switch)

    def uses_switch(self, options: Options) -> bool:
        """Whether its options contain the place where it starts."""
        return any(map(has_switch, self.texts(options).values()))

    def switch_in(self, state: ChainState, options: Options) -> Switch | None:
        """Where the part has started, if its options contain that place."""
        has_started = 1 < self.number <= len(state.switches) + 1
        uses = has_started and self.uses_switch(options)
        return state.switches[self.number - 2] if uses else None

    @contextmanager
    def naming_itself(self) -> Iterator[None]:
        """Name the part in the errors of its source."""
        try:
            yield
        except Flip27Error as error:
            if error.what.startswith(PREFIX):
                raise
            raise error.placed(self.title) from error.__cause__

    def declared(self) -> dict[str, Option[Any]]:
        """The options of its source, by name in lower case."""
        return {
            option.name.lower(): option for option in declared_options(self.enumerator_type, self.reader_type)
        }

    def own_options(self) -> Iterator[Option[Any]]:
        """Its options as options of the chain."""
        own: tuple[Option[Any], ...] = (
            *_OWN, *self.enumerator_type.options, *self.reader_type.options,
        )  # fmt: skip
        declared = self.declared()
        for name, option in {option.name: option for option in own}.items():
            if name.lower() not in declared or option is WATERMARK_DELAY:
                continue
            renamed = dataclasses.replace(option, name=self.option_name(name), parse=_or_switch(option.parse))
            if name in (ENUMERATOR.name, READER.name):
                yield FirstStartOption(name=renamed.name, parse=str, default=None, doc=option.doc)
            elif option.changes is Change.FIRST_START and self.number > 1:
                yield dataclasses.replace(
                    renamed, changes=Change.IGNORED, change_note="refused once the source has started"
                )
            else:
                yield renamed
        yield dataclasses.replace(READ_UNTIL, name=self.option_name(READ_UNTIL.name))
        for prefix in PASS_THROUGH_PREFIXES:
            yield Option(name=self.option_name(f"{prefix}*"), secret=True, doc=f"As {prefix}*.")

    def reads_until_next(self, options: Options) -> bool:
        """Whether it is read only to where the data of the next part begins."""
        return bool(options[self.option_name(READ_UNTIL.name)] == "next")

    def texts(self, options: Options) -> dict[str, str]:
        """Its options as given, by name in lower case."""
        return options.texts_under(Option(name=self.option_name("*"), doc=""))

    def start_options(self, options: Options) -> dict[str, str]:
        """The options that only its start uses, or that contain its place, without secrets, as given."""
        given, declared = self.texts(options), self.declared()
        return {
            option.name: given[name]
            for name, option in sorted(declared.items())
            if name in given
            and (option.changes is Change.FIRST_START or has_switch(given[name]))
            and not option.secret
        }

    def check_started(self, options: Options, stored: Mapping[str, str]) -> None:
        """Refuse options of its start that are not those with which it has started.

        Raises:
            IncompatibleStateError: an option has another value.
        """
        given, declared = self.start_options(options), self.declared()
        defaults = self.enumerator_type.switch_defaults if any(map(has_switch, stored.values())) else {}
        for name in sorted(stored.keys() | given.keys()):
            was, now = (texts.get(name, defaults.get(name)) for texts in (stored, given))
            if was != now and not _is_same(declared.get(name.lower()), was, now):
                raise IncompatibleStateError(
                    f"option {self.option_name(name)} was {was!r} when that source started, and is {now!r}",
                    remedy="restore the old value: the start of a source is not repeated",
                )

    def source(self, options: Options, switch: Switch | None = None) -> Source:
        """Its source by the options of the chain.

        Args:
            switch: where it starts; None leaves out the options that contain that place.

        Raises:
            OptionError: an option is unknown or malformed; the message names the part.
        """
        with self.naming_itself():
            own, declared = self.texts(options), self.declared()
            own.pop(READ_UNTIL.name.lower(), None)
            check_placeholders(own)
            if any(map(has_switch, own.values())):
                defaults = self.enumerator_type.switch_defaults.items()
                own = {name.lower(): text for name, text in defaults} | own
            if switch is None:
                own = {name: text for name, text in own.items() if not has_switch(text)}
            else:
                own = with_switch(own, switch, declared)
            storage = options.texts_under(Option(name="storage.*", doc=""))
            raw = {f"storage.{name}": text for name, text in storage.items()} | own
            # What a source creates elsewhere is named by its uid.
            uid = f"{options[UID] or PREFIX.rstrip('.')}-{self.number}"
            common: dict[Option[Any], Any] = {
                option: options[option]
                for option in CORE_OPTIONS
                if option not in (*_OWN, WATERMARK_DELAY)
                and option.name.lower() in declared
                and options.is_set(option)
            }
            if TIME_ZONE.name.lower() not in own and options.is_set(TIME_ZONE):
                common[TIME_ZONE] = options[TIME_ZONE]
            parsed = Options.parse(raw, declared.values()).with_values(common | {UID: uid})
            parsed = parsed.with_values(self.enumerator_type.implied_options(parsed))
            check_event_time_order(parsed, self.enumerator_type, self.reader_type)
            check_horizon(parsed, self.enumerator_type)
            self._check_steps(parsed)
            return Source(
                enumerator_type=self.enumerator_type,
                reader_type=self.reader_type,
                enumerator_name=self.name,
                reader_name=self.reader_name,
                uid=uid,
                options=parsed,
            )

    def _check_steps(self, parsed: Options) -> None:
        """Refuse eventTimeOrder of a part whose splits advance in step: that is for a whole chain."""
        if issubclass(self.enumerator_type, ReadsInStep) and parsed.get(EVENT_TIME_ORDER.name, False):
            raise OptionError(
                f"option {self.option_name(EVENT_TIME_ORDER.name)} is true, and {self.title} has no order by "
                "itself in a chain",
                remedy=f"remove it, and set {MAX_EVENT_TIME_DRIFT.name} for the chain",
            )


@functools.lru_cache(maxsize=256)  # one object, and one struct, for each part of a chain
def _part_of_classes(
    number: int, name: str, kind: type[SplitEnumerator[Any]], reader_name: str, reader: type[SplitReader[Any]]
) -> Part:
    if reader.reads_later:
        raise OptionError(
            f"option {PREFIX}{number}.reader is {reader_name}, whose rows only name files",
            remedy="set a reader of rows: json, csv, parquet, orc, avro, text, binary",
        )
    action_type = None
    if issubclass(kind, PerformsActions):
        action_type = _tagged("Action", number, PartAction, [("action", kind.resolve_action_type())])
    return Part(
        number=number,
        name=name,
        enumerator_type=kind,
        reader_name=reader_name,
        reader_type=reader,
        split_type=_tagged(
            "Split",
            number,
            PartSplit,
            [("split_id", str), ("split", kind.resolve_split_type()), ("switch", Switch | None, None)],
        ),
        action_type=action_type,
        events={
            event: _event_type(number, event)
            for event in dict.fromkeys((*kind.resolve_event_types(), *reader.resolve_event_types()))
        },
    )


def _event_type(number: int, event: type[SourceEvent]) -> type[PartEvent]:
    made: Any = dataclasses.make_dataclass(
        f"{event.__name__}{number}",
        [("event", event), ("switch", Switch | None, None)],
        bases=(PartEvent,),
        frozen=True,
        namespace={"number": number},
    )
    kind: type[PartEvent] = made
    return kind


def _tagged(name: str, number: int, base: type[Any], fields: list[Any]) -> Any:
    """The struct of a part's values, whose stored form tells the number of the part."""
    return msgspec.defstruct(
        f"{name}{number}",
        fields,
        bases=(base,),
        namespace={"number": number},
        tag_field="part",
        tag=str(number),
        frozen=True,
    )


def _is_same(option: Option[Any] | None, was: str | None, now: str | None) -> bool:
    """Whether two texts of an option have one value; None is its default."""
    if option is None or any(text is not None and has_switch(text) for text in (was, now)):
        return False
    values = [option.default if text is None else option.parse(text) for text in (was, now)]
    return bool(values[0] == values[1])


def _or_switch(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: text if has_switch(text) else parse(text)


def parts_of(raw_options: Mapping[str, str]) -> tuple[Part, ...]:
    """The parts that the options of a chain describe.

    Raises:
        OptionError: there are fewer than two parts, or one is left out or invalid.
    """
    given: dict[int, dict[str, str]] = {}
    for name, text in raw_options.items():
        found = _NAME.fullmatch(name.lower())
        if found is not None:
            given.setdefault(int(found[1]), {})[found[2]] = text
    numbers = sorted(given)
    if len(numbers) < 2 or numbers != list(range(1, len(numbers) + 1)) or len(numbers) > _MOST_PARTS:
        raise OptionError(
            "a chain has the parts " + (", ".join(f"hybrid.{number}" for number in numbers) or "none"),
            remedy='number its sources from 1 on, at least two: .option("hybrid.1.enumerator", "files"), '
            '.option("hybrid.2.enumerator", "kafka"), or use flip27_source.hybrid(...)',
        )
    parts = []
    for number in numbers:
        try:
            parts.append(Part.of(number, given[number]))
        except Flip27Error as error:
            if error.what.startswith(f"option {PREFIX}"):
                raise
            raise error.placed(f"{PREFIX}{number}") from error.__cause__
    return tuple(parts)


class ChainState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a chain; its class for given parts has a field for the state of each.

    Attributes:
        part: the number of the part that is read now.
        switches: where each part after the first one started.
        last: the event times of the split that ends last, of those that the present part has assigned.
        has_read: whether the present part has assigned any.
        started: for each part after the first one that has started, the options of its start.
        began_us: when the present part started for the first time, in microseconds since the epoch.
    """

    part: int = 1
    switches: tuple[Switch, ...] = ()
    last: EventTimeRange | None = None
    has_read: bool = False
    started: tuple[dict[str, str], ...] = ()
    began_us: int = 0

    def of_part(self, part: Part) -> Any:
        """The state of a part; None if it has not started, or has none yet."""
        return getattr(self, part.state_field)


def state_type_of(parts: tuple[Part, ...]) -> type[ChainState]:
    """The class of the state of a chain with these parts."""
    fields: list[Any] = [
        (part.state_field, Optional[part.enumerator_type.resolve_state_type()], None)  # noqa: UP045
        for part in parts
    ]
    made: Any = msgspec.defstruct(
        "HybridState", fields, bases=(ChainState,), frozen=True, kw_only=True, omit_defaults=True
    )
    kind: type[ChainState] = made
    return kind


def joint_version(versions: list[int]) -> int:
    """One number for the versions of all parts; it grows when one of them does."""
    joint: int = sum(version * _VERSIONS**place for place, version in enumerate(versions))
    return joint


def version_in(joint: int, part: Part) -> int:
    """The version of a part in a number of :func:`joint_version`."""
    return int(joint // _VERSIONS ** (part.number - 1) % _VERSIONS)
