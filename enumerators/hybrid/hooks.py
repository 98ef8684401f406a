"""ChainHooks: what edits, checks, savepoints and planning ask of the class of a chain: each part answers.

A hook gets values of the chain, and passes each part its own. Pure, except for hooks that may do I/O.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast

import msgspec

from flip27_source.enumerator import SplitEnumerator
from flip27_source.enumerator_mixins import (
    CutsSomeSplits,
    ForgetsSplits,
    HoldsSplits,
    LimitsEdits,
    PerformsActions,
    SplitRange,
)
from flip27_source.enumerators.hybrid.parts import ChainState, Part, PartAction, PartSplit, version_in
from flip27_source.errors import EditError
from flip27_source.file_systems.moved_paths import PathRewrite, RewritesPaths
from flip27_source.leftovers import LeavesThings, Leftover
from flip27_source.options import Options
from flip27_source.source_progress import Cell, ProgressTable, TellsProgress

_NO_FORGETTING = "its source cannot forget splits"


def is_overridden(kind: type[Any], base: type[Any], name: str) -> bool:
    """Whether a class defines a class or static method anew."""
    own, default = (getattr(one, name) for one in (kind, base))
    return getattr(own, "__func__", own) is not getattr(default, "__func__", default)


class ChainHooks(
    PerformsActions[PartAction],
    HoldsSplits,
    ForgetsSplits,
    CutsSomeSplits,
    LimitsEdits,
    RewritesPaths[PartSplit],
    LeavesThings,
    TellsProgress,
):
    """The class methods of a chain.

    Attributes:
        parts: the parts. state_type: the class of the state, with a field for each part.
    """

    parts: ClassVar[tuple[Part, ...]] = ()
    state_type: ClassVar[Any] = ChainState
    leaves: ClassVar[Sequence[str]] = ()

    @classmethod
    def _kind_of(cls, split: PartSplit) -> Any:
        return cls.parts[split.number - 1].enumerator_type

    @classmethod
    def _started(cls, state: ChainState) -> Iterator[tuple[Part, Any, Any]]:
        """Each part that has a state, with its enumerator's class and that state."""
        for part in cls.parts:
            own = state.of_part(part)
            if own is not None:
                yield part, part.enumerator_type, own

    @classmethod
    def _own_ids(cls, part: Part, split_ids: Iterable[str]) -> list[str]:
        prefix = part.split_id("")
        return [name.removeprefix(prefix) for name in split_ids if name.startswith(prefix)]

    @classmethod
    def _with_states(cls, state: ChainState, changed: Mapping[str, Any]) -> ChainState:
        return msgspec.structs.replace(state, **changed) if changed else state

    @classmethod
    def wants_finished_splits(cls, options: Options) -> bool:
        """Whether the enumerator of a part wants them."""
        return any(
            part.enumerator_type.wants_finished_splits(part.source(options).options) for part in cls.parts
        )

    @classmethod
    def progress(
        cls, state: ChainState | None, live: Sequence[PartSplit], numbers: Mapping[str, Any]
    ) -> Iterator[ProgressTable]:
        """Which source is read, and where each has started; then what the one that is read tells."""
        present = ChainState() if state is None else state
        starts = ("its own start", *map(str, present.switches))
        reads = cls.parts[present.part - 1]
        words = {-1: "was read to its end", 0: "is read", 1: "waits"}
        rows: list[tuple[Cell, ...]] = [
            (
                part.title,
                words[(part.number > present.part) - (part.number < present.part)],
                starts[part.number - 1] if part.number <= present.part else None,
            )
            for part in cls.parts
        ]
        where = "" if present.part == 1 else f", which began at the switch {starts[present.part - 1]}"
        yield ProgressTable(
            title="chain",
            said=f"source {present.part} of {len(cls.parts)} is read: {reads.title}{where}",
            columns=("source", "status", "begins at"),
            rows=rows,
        )
        if issubclass(kind := reads.enumerator_type, TellsProgress):
            own = [split.split for split in live if split.number == reads.number]
            yield from kind.progress(present.of_part(reads), own, numbers)

    @classmethod
    def set_apart(cls, cut: PartSplit) -> PartSplit:
        apart = cls._kind_of(cut).set_apart(cut.split)
        return cut if apart is cut.split else cls.parts[cut.number - 1].changed(cut, apart)

    @classmethod
    def is_cut_off(cls, split: PartSplit) -> bool:
        kind = cls._kind_of(split)
        if kind.bound_split is SplitEnumerator.bound_split:
            return False
        return not issubclass(kind, CutsSomeSplits) or kind.is_cut_off(split.split)

    @classmethod
    def splits_in(cls, state: ChainState) -> list[PartSplit]:
        return [
            part.wrapped(split, None)
            for part, kind, own in cls._started(state)
            if issubclass(kind, HoldsSplits)
            for split in kind.splits_in(own)
        ]

    @classmethod
    def without_splits(cls, state: ChainState, split_ids: Collection[str]) -> ChainState:
        changed = {
            part.state_field: kind.without_splits(own, names)
            for part, kind, own in cls._started(state)
            if issubclass(kind, HoldsSplits) and (names := cls._own_ids(part, split_ids))
        }
        return cls._with_states(state, changed)

    @classmethod
    def range_of(cls, split: PartSplit) -> SplitRange:
        kind = cls._kind_of(split)
        if not issubclass(kind, HoldsSplits):
            return split.split_id, 0, 1
        of, *rest = kind.range_of(split.split)
        found: Any = (cls.parts[split.number - 1].split_id(of), *rest)
        return cast("SplitRange", found)

    @classmethod
    def left_alone(cls, split: PartSplit) -> str | None:
        kind = cls._kind_of(split)
        return kind.left_alone(split.split) if issubclass(kind, LimitsEdits) else None

    @classmethod
    def check_rewind(cls, present: ChainState, older: ChainState, undone: Sequence[PartSplit]) -> None:
        """Ask each part; one that had not started then has no older state."""
        for part, kind, own in cls._started(present):
            if part.number > max(older.part, 1) and kind.starts_now(present.started[part.number - 2]):
                raise EditError(
                    f"{part.title} would start anew at the present end of its data, and what has come since "
                    "its first start would not come again",
                    remedy="go back to a checkpoint after the start of this source",
                )
            if issubclass(kind, LimitsEdits):
                splits = [split.split for split in undone if split.number == part.number]
                kind.check_rewind(own, older.of_part(part), splits)

    @classmethod
    def found_again(
        cls, state: ChainState, splits: Sequence[PartSplit], *, options: Options
    ) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for part in cls.parts:
            kind, own = part.enumerator_type, [s.split for s in splits if s.number == part.number]
            if own and issubclass(kind, ForgetsSplits):
                known = state.of_part(part)
                if known is None:
                    again: Mapping[str, str] = dict.fromkeys((split.split_id for split in own), "")
                else:
                    given = part.source(options, part.switch_in(state, options)).options
                    again = kind.found_again(known, own, options=given)
                found |= {part.split_id(name): why for name, why in again.items()}
        return found

    @classmethod
    def forget_splits(
        cls, state: ChainState, split_ids: Collection[str], *, busy: Sequence[PartSplit], options: Options
    ) -> tuple[ChainState, Mapping[str, str]]:
        changed: dict[str, Any] = {}
        refused: dict[str, str] = {}
        for part, kind, own in cls._started(state):
            names = cls._own_ids(part, split_ids)
            if not names:
                continue
            if part.number < state.part:
                raise EditError(
                    f"{part.title} has been read, and the chain is at hybrid.{state.part}: splits that are "
                    "forgotten would not be found again",
                    remedy="replay the splits, or rewind the query to a checkpoint of that part",
                )
            if not issubclass(kind, ForgetsSplits):
                refused |= {part.split_id(name): _NO_FORGETTING for name in names}
                continue
            occupied = [split.split for split in busy if split.number == part.number]
            given = part.source(options, part.switch_in(state, options)).options
            after, left = kind.forget_splits(own, names, busy=occupied, options=given)
            changed[part.state_field] = after
            refused |= {part.split_id(name): why for name, why in left.items()}
        return cls._with_states(state, changed), refused

    @classmethod
    def resolve_action_type(cls) -> Any:
        kinds: Any = [part.action_type for part in cls.parts if part.action_type is not None]
        return functools.reduce(operator.or_, kinds) if kinds else PartAction

    @classmethod
    def action_delay_s(cls, options: Options) -> float | None:
        """The delay of the one part that delays actions."""
        delays = [
            kind.action_delay_s(part.source(options).options)
            for part in cls.parts
            if issubclass(kind := part.enumerator_type, PerformsActions)
            and is_overridden(kind, PerformsActions, "action_delay_s")
        ]
        if not delays:
            return 0.0
        known = [delay for delay in delays if delay is not None]
        return max(known) if known else None

    @classmethod
    def concerned(cls, actions: Sequence[PartAction], split_ids: Collection[str]) -> Sequence[bool]:
        answers = []
        for action in actions:
            part = cls.parts[action.number - 1]
            kind = cast("type[PerformsActions[Any]]", part.enumerator_type)
            names = cls._own_ids(part, split_ids)
            answers.append(bool(names) and bool(kind.concerned([action.action], names)[0]))
        return answers

    @classmethod
    def not_finished(
        cls, state: ChainState, split_ids: Collection[str], dropped: Sequence[PartAction]
    ) -> ChainState:
        changed = {
            part.state_field: kind.not_finished(
                own, names, [action.action for action in dropped if action.number == part.number]
            )
            for part, kind, own in cls._started(state)
            if issubclass(kind, PerformsActions) and (names := cls._own_ids(part, split_ids))
        }
        return cls._with_states(state, changed)

    @classmethod
    def rewrite_split(cls, split: PartSplit, rewrite: PathRewrite) -> PartSplit:
        kind = cls._kind_of(split)
        if not issubclass(kind, RewritesPaths):
            return split
        return cls.parts[split.number - 1].changed(split, kind.rewrite_split(split.split, rewrite))

    @classmethod
    def rewrite_state(cls, state: ChainState, rewrite: PathRewrite, options: Options) -> ChainState:
        changed = {
            part.state_field: kind.rewrite_state(
                own, rewrite, part.source(options, part.switch_in(state, options)).options
            )
            for part, kind, own in cls._started(state)
            if issubclass(kind, RewritesPaths)
        }
        return cls._with_states(state, changed)

    @classmethod
    def leftovers(cls, options: Options, state: Any) -> Iterator[Leftover]:
        for part in cls.parts:
            own = state.get(part.state_field) if isinstance(state, Mapping) else None
            if own is not None and issubclass(kind := part.enumerator_type, LeavesThings):
                with part.naming_itself():
                    yield from kind.leftovers(part.source(options).options, own)

    @classmethod
    def upgrade_state(cls, version: int, raw: Any) -> Any:
        return {**raw, **cls._upgraded(version, {f.state_field: raw.get(f.state_field) for f in cls.parts})}

    @classmethod
    def _upgraded(cls, version: int, states: Mapping[str, Any]) -> dict[str, Any]:
        upgraded = {}
        for part in cls.parts:
            was, own = version_in(version, part), states[part.state_field]
            if own is not None and was < part.enumerator_type.state_version:
                own = msgspec.to_builtins(part.enumerator_type.upgrade_state(was, own))
            upgraded[part.state_field] = own
        return upgraded

    @classmethod
    def upgrade_split(cls, version: int, raw: Any) -> Any:
        part = cls.parts[int(raw["part"]) - 1]
        was = version_in(version, part)
        if was == part.enumerator_type.split_version:
            return raw
        return {**raw, "split": msgspec.to_builtins(part.enumerator_type.upgrade_split(was, raw["split"]))}
