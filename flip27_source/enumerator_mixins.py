"""Optional mix-ins of an enumerator: actions after a checkpoint, and the methods that edits need.

An enumerator has those that apply to it among its base classes, in any order; they are independent of each
other. Pure: no pyspark, no I/O.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from .errors import ContractError
from .event_time import EventTimeRange
from .options import Options
from .split import SplitT
from .values.annotations import annotation_of

ActionT = TypeVar("ActionT")


class PerformsActions(ABC, Generic[ActionT]):
    """Optional mix-in of an enumerator: side effects once a checkpoint is complete (R7).

    Examples: archive files, acknowledge messages, commit positions elsewhere. An enumerator requests actions
    with ``context.perform_after_completion``; each is a value that can be stored as JSON.
    """

    action_type: ClassVar[Any] = None
    """Type of the actions; None: the annotation of ``perform``."""

    @abstractmethod
    def perform(self, action: ActionT) -> None:
        """Perform an action. Runs on a thread, in parallel with others; must be idempotent.

        If it raises, it is retried at the next completion, up to ``maxActionAttempts`` times.
        """

    @classmethod
    def action_delay_s(cls, options: Options) -> float | None:
        """How long delayed actions wait after their checkpoint is complete, in seconds; None: this run
        performs none of them, and they stay in the state.

        Called once in each run; the result also applies to actions that earlier runs have delayed.
        """
        return 0.0

    @classmethod
    def concerned(cls, actions: Sequence[ActionT], split_ids: Collection[str]) -> Sequence[bool]:
        """For each action, whether it touches the data of one of these splits.

        ``split_ids`` also has the names of what the splits are parts of (``HoldsSplits.range_of``).

        Called for an edit after which splits are read again: such actions must no longer be performed. The
        default is True for all actions, because a skipped action loses no data.
        """
        return [True] * len(actions)

    @classmethod
    def not_finished(cls, state: Any, split_ids: Collection[str], dropped: Sequence[ActionT]) -> Any:
        """A value of ``snapshot_state`` as if these splits had not been finished.

        Called for an edit that has splits read again which stay known. The default returns ``state``.

        Args:
            dropped: the actions that the edit drops, because they concern these splits.
        """
        return state

    @classmethod
    def resolve_action_type(cls) -> Any:
        """``action_type``, or the annotation of ``perform``."""
        return annotation_of(cls, "perform", "action", "action_type")


SplitRange = tuple[str, int, int] | tuple[str, int, int, str]
"""The name of what a split is a part of, and the start and end of the part. A fourth item says what these two
count, if not all parts count the same: parts that count different things overlap."""


class HoldsSplits(ABC):
    """Optional mix-in of an enumerator: its state contains the splits that it has found and not assigned.

    Edits use it: a split that the enumerator holds can be skipped, and is not assigned twice.
    """

    @classmethod
    @abstractmethod
    def splits_in(cls, state: Any) -> Sequence[Any]:
        """The splits in a value of ``snapshot_state``."""

    @classmethod
    @abstractmethod
    def without_splits(cls, state: Any, split_ids: Collection[str]) -> Any:
        """The state without these splits; they stay known, so that discovery does not find them again."""

    @classmethod
    def range_of(cls, split: Any) -> SplitRange:
        """What a split reads, never empty: of splits whose ranges overlap, a replay reads one.

        The default: splits with different ids do not overlap.
        """
        return split.split_id, 0, 1


class ForgetsSplits(ABC):
    """Optional mix-in of an enumerator: its state can forget splits, so that discovery finds them again."""

    @classmethod
    @abstractmethod
    def found_again(cls, state: Any, splits: Sequence[Any], *, options: Options) -> Mapping[str, str]:
        """Which of these splits discovery finds from this state, because the state does not know them.

        The views and dry runs show it, and a replay leaves such splits alone. It does no I/O: a split whose
        data is gone counts as found.

        Args:
            splits: in the order in which they were read.
            options: those that the state has; all others have their defaults, except in a running query.

        Returns:
            By split id, an empty text or a condition ("if it counts as late"), without splits surely known.
        """

    @classmethod
    @abstractmethod
    def forget_splits(
        cls, state: Any, split_ids: Collection[str], *, busy: Sequence[Any], options: Options
    ) -> tuple[Any, Mapping[str, str]]:
        """The state without knowledge of these splits.

        Args:
            busy: splits that are not read yet, or quarantined: they must stay known.

        Returns:
            The state, and the reasons for splits that are not forgotten, by split id.

        Raises:
            EditError: this state cannot forget single splits.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPosition:
    """A position in a split, as ``flip27 edit set-position`` names it: exactly one attribute is set.

    Attributes:
        offset: a number that the source counts its rows by.
        timestamp_ms: the first row at this time or later, in milliseconds since 1970 UTC.
        word: ``earliest`` or ``latest``.
    """

    offset: int | None = None
    timestamp_ms: int | None = None
    word: str | None = None


class NamesPositions(ABC):
    """Optional mix-in of an enumerator: positions of its live splits have names, which edits use."""

    @classmethod
    @abstractmethod
    def fields_at(cls, position: NamedPosition) -> Mapping[str, Any]:
        """The fields of a split at this position, with their values.

        Raises:
            EditError: the source has no such position.
        """

    @classmethod
    @abstractmethod
    def rows_moved(cls, now: Mapping[str, Any], then: Mapping[str, Any]) -> int | None:
        """How many rows a change of these fields skips; below 0, how many are read again; None: not known."""

    @classmethod
    def position_said(cls, fields: Mapping[str, Any]) -> str | None:
        """The position of a split with these fields in words, for people; None to show the fields."""
        return None


class CompletesPositions(ABC):
    """Optional mix-in of an enumerator: some fields of its live splits depend on others."""

    @classmethod
    @abstractmethod
    def completed_position(cls, fields: Mapping[str, Any], now: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields that ``set-position`` changes: those given, and those that depend on them.

        Args:
            fields: as given, not yet validated.
            now: all fields of the split.
        """


class CutsSomeSplits(ABC):
    """Optional mix-in of an enumerator with ``bound_split`` that plans some of its splits as a whole.

    Planning uses it: such splits are requested only while a batch has room for them. If more are assigned,
    they wait outside the live splits. Edits use it: such a split can be replayed.
    """

    @classmethod
    @abstractmethod
    def is_cut_off(cls, split: Any) -> bool:
        """Whether a planned split is a range that was cut from another split and cannot be read alone.

        Also called for splits that are only assigned; those that ``bound_split`` then cuts are not whole,
        whatever this method says of them.
        """


class FollowsEventTime(ABC, Generic[SplitT]):
    """Optional mix-in of an enumerator: it knows how far in event time its live splits are.

    ``maxEventTimeDrift`` and ``replaySpeed`` use it: a batch has a horizon, and no live split is read past
    it. ``bound_split`` must keep to the horizon in ``budget.latest_us``: it returns None if the split has
    reached a later time, and else no record that is later, as far as the times are known.
    """

    @abstractmethod
    def event_time_at(self, split: SplitT) -> int | None:
        """The event time that a live split has reached, in microseconds since the epoch (UTC).

        It is that of the next record that waits in it, or of its last record if none waits. If it is not
        known exactly, an earlier time is safe; as a split is read, it never goes back.

        Called at every checkpoint, also for the ``rest`` of ``bound_split``: it does no I/O and has no side
        effects.

        Returns:
            None if it is not known: such a split is never held back, and holds no other back.
        """


class ReadsInStep(FollowsEventTime[SplitT]):
    """Optional mix-in of an enumerator: with ``eventTimeOrder`` its live splits advance together.

    They are aligned: it sets ``maxEventTimeDrift`` itself if that is not given (``implied_options``). The
    times of the ranges that are read tell the delay that a watermark needs.
    """

    @abstractmethod
    def event_times_in(self, cut: SplitT) -> EventTimeRange | None:
        """The event times in a range of ``bound_split``, as wide as they may be; None: not known."""

    @abstractmethod
    def event_times_after(self, live: Sequence[SplitT]) -> EventTimeRange | None:
        """The event times of all that waits in these splits and in those that are not assigned; None: nothing
        waits whose times are known."""


class LimitsEdits(ABC):
    """Optional mix-in of an enumerator: data that an older state needs may no longer exist, or some splits
    are read without gaps."""

    @classmethod
    def left_alone(cls, split: Any) -> str | None:
        """Why edits can neither skip a split that is not finished, nor move it; None: they can."""
        return None

    @classmethod
    @abstractmethod
    def check_rewind(cls, present: Any, older: Any, undone: Sequence[Any]) -> None:
        """Check that the source can go back from one value of ``snapshot_state`` to an older one.

        Args:
            undone: the splits, and ranges of splits, in the batches since then.

        Raises:
            EditError: it cannot; the rewind is refused, and the query continues.
        """


class ComposedOfSources(ABC):
    """Optional mix-in of an enumerator that consists of other sources: its class follows from the options."""

    @classmethod
    @abstractmethod
    def composed(cls, raw_options: Mapping[str, str]) -> type[Any]:
        """The class for these options, by name in lower case; those of the first start are enough.

        Raises:
            OptionError, RegistryError, ContractError: a source is missing, unknown or invalid.
        """


_FOR_EDITS = (HoldsSplits, ForgetsSplits, NamesPositions, CompletesPositions, CutsSomeSplits, LimitsEdits)


def check_bases(enumerator_type: type[Any]) -> None:
    """Check that an enumerator with the methods of a mix-in has the mix-in among its bases.

    Raises:
        ContractError: it has not, so edits would not use its methods.
    """
    for kind in _FOR_EDITS:
        methods = sorted(kind.__abstractmethods__)
        if not issubclass(enumerator_type, kind) and all(hasattr(enumerator_type, name) for name in methods):
            name = enumerator_type.__qualname__
            raise ContractError(
                f"{name} defines {' and '.join(methods)}, but {kind.__name__} is not one of its base classes",
                remedy=f"write class {name}({kind.__name__}, ...)",
            )
