"""StoredValues: checks that authors' values can be restored from their stored form.

A value is stored as JSON by its declared type. JSON has no NaN, no tuples and no classes, so a value is
accepted only if its JSON, decoded with the declared type, gives an equal value. Other values are refused
when the author's code passes them, before anything is written. Pure.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from ..errors import ContractError
from ..segment import Segment
from .differences import SCALARS, difference, shown, unstorable

if TYPE_CHECKING:
    from ..enumerator import SplitEnumerator
    from ..events import SourceEvent
    from ..reader import SplitReader

_REMEDY = (
    "use the types that the annotations declare, and only types that JSON can represent (str, int, float, "
    "bool, bytes, datetime, list, tuple, dict with str keys, dataclass), or a Segment for bulk data; text "
    "must be Unicode, and JSON cannot represent NaN and infinity"
)

_TAGGED = (
    "the stored JSON has to tell the classes of a union apart: write each as a struct with a tag of its own, "
    'such as class Chunk(msgspec.Struct, frozen=True, tag="chunk")'
)

_UNIONS = (Union, types.UnionType)

_LONGEST_INT_BITS = 63


class StoredValues:
    """Values of one declared type.

    Args:
        declared: the annotated type.
        what: the name of a value in messages, such as "a split of Orders".
        holds_segments: whether a value may contain a :class:`Segment`.

    Attributes:
        declared: as given.

    Raises:
        ContractError: no value of the declared type can be stored.
    """

    def __init__(self, declared: Any, what: str, *, holds_segments: bool = False) -> None:
        self.declared = declared
        self._what = what
        self._holds_segments = holds_segments
        self._flat = _FlatClass.of(declared)
        try:
            self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(declared)
        except (TypeError, NameError, RecursionError) as error:
            remedy = _TAGGED if get_origin(declared) in _UNIONS else _REMEDY
            raise ContractError(
                f"{what} has a type that cannot be stored as JSON: {error} ({declared})", remedy=remedy
            ) from error

    def check(self, value: Any) -> None:
        """Refuse a value that could not be restored unchanged.

        Raises:
            ContractError: the value cannot be stored; the message names the field.
        """
        if self._flat is None or not self._flat.has(value):
            self.encode(value, {})

    def check_split(self, split: Any) -> None:
        """:meth:`check` for a split and its id.

        Raises:
            ContractError: the split cannot be stored; the message names the field.
        """
        self.check(split)
        split_id = getattr(split, "split_id", None)
        if not isinstance(split_id, str):
            raise self._refused(
                split, f"$.split_id is {split_id!r:.200}, but the id of a split must be a str"
            )
        if not is_unicode(split_id):
            raise self._refused(split, f"$.split_id is {split_id!r:.200}, which is not Unicode")

    def encode(self, value: Any, segments: dict[str, Segment]) -> bytes:
        """The JSON of a value; its segments are added to ``segments``.

        Raises:
            ContractError: the value could not be restored unchanged; the message names the field.
        """
        if self._flat is not None and self._flat.has(value):
            return self._encoded(value, segments)
        try:
            data = self._encoded(value, segments)
        except Exception as error:
            raise self._refused(value, unstorable(value) or f"$: {error}") from error
        try:
            problem = difference(value, self._decoded(data, segments))
        except Exception as error:
            problem = unstorable(value) or self._of_no_kind(value) or str(error)
            raise self._refused(value, problem) from error
        if problem is not None:
            raise self._refused(value, unstorable(value) or problem)
        return data

    def _encoded(self, value: Any, segments: dict[str, Segment]) -> bytes:
        def collect(item: Any) -> Any:
            if self._holds_segments and isinstance(item, Segment):
                segments[item.name] = item
                return item.name
            raise NotImplementedError(f"JSON cannot represent a {type(item).__name__}")

        return msgspec.json.encode(value, enc_hook=collect, order="sorted")

    def _decoded(self, data: bytes, segments: Mapping[str, Segment]) -> Any:
        if not self._holds_segments:
            return self._decoder.decode(data)

        def find(_kind: type, name: Any) -> Segment:
            return segments[name]

        return msgspec.json.decode(data, type=self.declared, dec_hook=find)

    def _of_no_kind(self, value: Any) -> str | None:
        """What a value is, if its class is none of the structs of the declared union."""
        kinds = get_args(self.declared) if get_origin(self.declared) in _UNIONS else ()
        if not isinstance(value, msgspec.Struct) or type(value) in kinds:
            return None
        return f"$ is a {type(value).__name__}, which {self.declared} does not name" if kinds else None

    def _refused(self, value: Any, problem: str) -> ContractError:
        return ContractError(
            f"{self._what} cannot be stored as JSON: {problem} ({shown(value)})", remedy=_REMEDY
        )


@lru_cache(maxsize=64)  # a Python worker has many tasks of one source
def stored_splits(enumerator_type: type[SplitEnumerator[Any]]) -> StoredValues:
    return StoredValues(enumerator_type.resolve_split_type(), f"a split of {enumerator_type.__qualname__}")


@lru_cache(maxsize=64)
def stored_states(enumerator_type: type[SplitEnumerator[Any]]) -> StoredValues:
    what = f"the state of {enumerator_type.__qualname__}"
    return StoredValues(enumerator_type.resolve_state_type(), what, holds_segments=True)


def stored_actions(enumerator_type: type[SplitEnumerator[Any]]) -> StoredValues:
    """The actions of an enumerator.

    Raises:
        ContractError: the enumerator does not perform actions.
    """
    from ..enumerator_mixins import PerformsActions

    if not issubclass(enumerator_type, PerformsActions):
        raise ContractError(
            f"{enumerator_type.__qualname__} has actions, but no method to perform them",
            remedy=f"write class {enumerator_type.__name__}(PerformsActions[YourAction], ...) "
            "with a method perform",
        )
    return StoredValues(enumerator_type.resolve_action_type(), f"an action of {enumerator_type.__qualname__}")


def stored_events(
    receiver: type[SplitEnumerator[Any] | SplitReader[Any]],
) -> dict[type[SourceEvent], StoredValues]:
    return {
        kind: StoredValues(kind, f"a {kind.__name__} to {receiver.__qualname__}")
        for kind in receiver.resolve_event_types()
    }


class _FlatClass:
    """A dataclass with scalar fields only: a fast check of whether its values can be stored.

    Most splits are of this kind, there may be millions, and this check is cheaper than encoding JSON.
    """

    def __init__(self, kind: type, allowed: Mapping[str, frozenset[type]]) -> None:
        self._kind = kind
        self._values: Callable[[Any], Any] = attrgetter(*allowed)
        self._allowed = tuple(allowed.values())
        self._places: dict[tuple[type, ...], tuple[tuple[int, ...], ...]] = {}

    @classmethod
    def of(cls, declared: Any) -> _FlatClass | None:
        """The class for a declared type; None if the type is not such a dataclass."""
        if not isinstance(declared, type) or not dataclasses.is_dataclass(declared):
            return None
        fields = dataclasses.fields(declared)
        # attrgetter returns a tuple only for two or more names.
        if len(fields) < 2 or hasattr(declared, "__post_init__") or not all(item.init for item in fields):
            return None
        try:
            hints = get_type_hints(declared, include_extras=True)
        except NameError:
            return None
        allowed = {item.name: _scalars_of(hints[item.name], item.default) for item in fields}
        return cls(declared, allowed) if all(allowed.values()) else None

    def has(self, value: Any) -> bool:
        """Whether the value is certain to be restored from JSON unchanged; False means unknown."""
        if type(value) is not self._kind:
            return False
        items = self._values(value)
        kinds = tuple(map(type, items))
        places = self._places.get(kinds)
        if places is None:
            if not all(kind in allowed for kind, allowed in zip(kinds, self._allowed, strict=True)):
                return False
            places = self._places[kinds] = tuple(
                tuple(place for place, found in enumerate(kinds) if found is kind)
                for kind in (str, int, float)
            )
        texts, integers, floats = places
        for place in texts:
            text = items[place]
            if not (text.isascii() or is_unicode(text)):
                return False
        for place in integers:
            if items[place].bit_length() > _LONGEST_INT_BITS:
                return False
        return all(math.isfinite(items[place]) for place in floats) if floats else True


def _scalars_of(hint: Any, default: Any) -> frozenset[type]:
    """The scalar types, and UNSET as the default, that an annotation allows besides literals; else empty."""
    parts = get_args(hint) if get_origin(hint) in _UNIONS else (hint,)
    parts = tuple(part for part in parts if get_origin(part) is not Literal)
    known = SCALARS | {msgspec.UnsetType} if default is msgspec.UNSET else SCALARS
    return frozenset(parts) if known.issuperset(parts) else frozenset()


def is_unicode(text: str) -> bool:
    """Whether a text contains no lone surrogate, which Unicode encodings cannot represent."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
