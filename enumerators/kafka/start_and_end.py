"""Where a query starts and ends, and what Spark's option names imply. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flip27_source.enumerators.kafka import options as opts
from flip27_source.enumerators.kafka.positions import AT_EARLIEST, AT_LATEST, Positions
from flip27_source.enumerators.kafka.split import LATEST
from flip27_source.errors import OptionError
from flip27_source.options import Option, Options
from flip27_source.source_options import (
    LOG_DATA_LOSS,
    MAX_ROWS_PER_TRIGGER,
    ON_DATA_LOSS,
    STATE_LOCATION,
)


def starting(options: Options, *, is_batch: bool) -> Positions:
    """Where partitions start at the first poll of the first start.

    Raises:
        OptionError: a batch read is to start at the end.
    """
    given = _first_of(
        options, opts.STARTING_TIMESTAMP, opts.STARTING_OFFSETS_BY_TIMESTAMP, opts.STARTING_OFFSETS
    )
    if given is None:
        default = AT_EARLIEST if is_batch else AT_LATEST
        return Positions(everywhere=default, option=opts.STARTING_OFFSETS.name)
    if is_batch and (
        given.everywhere == AT_LATEST
        or any(position.offset == LATEST for position in (given.each or {}).values())
    ):
        raise OptionError(
            "option startingOffsets has latest, and a batch read ends there",
            remedy="set earliest, an offset or a time",
        )
    return given


def ending(options: Options, *, is_batch: bool) -> Positions | None:
    """Where partitions end in a batch read; None in a stream.

    Raises:
        OptionError: an end is set for a stream.
    """
    given = _first_of(options, opts.ENDING_TIMESTAMP, opts.ENDING_OFFSETS_BY_TIMESTAMP, opts.ENDING_OFFSETS)
    if is_batch:
        return given or Positions(everywhere=AT_LATEST, option=opts.ENDING_OFFSETS.name)
    if given is not None:
        raise OptionError(
            f"option {given.option} is set, and a stream has no end",
            remedy="leave it out, or use spark.read; Trigger.AvailableNow ends at what is there now",
        )
    return None


def implied(options: Options) -> Mapping[Option[Any], Any]:
    """The options of every source that are set under Spark's names, and their values.

    Raises:
        OptionError: options contradict each other.
    """
    found: dict[Option[Any], Any] = {}
    fails = options[opts.FAIL_ON_DATA_LOSS]
    if fails is not None:
        found[ON_DATA_LOSS] = "fail" if fails else _reported(options)
    limit = options[opts.MAX_OFFSETS_PER_TRIGGER]
    if limit is not None:
        found[MAX_ROWS_PER_TRIGGER] = limit
    for option, value in found.items():
        if options.is_set(option) and options[option] != value:
            name = opts.FAIL_ON_DATA_LOSS if option is ON_DATA_LOSS else opts.MAX_OFFSETS_PER_TRIGGER
            raise OptionError(
                f"options {name.name} and {option.name} contradict each other: {options[name]!r} and "
                f"{options[option]!r}",
                remedy=f"set one of them; {name.name} is Spark's name for {option.name}",
            )
    least = options[opts.MIN_OFFSETS_PER_TRIGGER]
    most = found.get(MAX_ROWS_PER_TRIGGER, options[MAX_ROWS_PER_TRIGGER])
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"option minOffsetsPerTrigger ({least}) is above maxOffsetsPerTrigger ({most})",
            remedy="set a minimum that a batch can have",
        )
    return found


def _reported(options: Options) -> str:
    """The onDataLoss for failOnDataLoss=false: without a stateLocation, tasks cannot report losses."""
    can_report = options[STATE_LOCATION] is not None or options.is_set(ON_DATA_LOSS)
    return "report" if can_report else LOG_DATA_LOSS


def group_of(options: Options) -> str | None:
    """The consumer group that offsets are committed to; None if they are not.

    Raises:
        OptionError: no group is named.
    """
    if not options[opts.COMMIT_OFFSETS]:
        return None
    group = options.texts_under(opts.KAFKA).get("group.id", "").strip()
    if not group:
        raise OptionError(
            "option commitOffsets is true, and kafka.group.id is not set",
            remedy="name the group whose offsets are to follow the query, which no other consumer uses",
        )
    return group


def _first_of(options: Options, *order: Option[Positions | None]) -> Positions | None:
    """The value of the first of these options that is set."""
    for option in order:
        given = options[option]
        if given is not None:
            return replace(given, option=option.name)
    return None
