"""Segments: immutable bulk state, named by content, shared by checkpoint documents.

An author puts a :class:`Segment` anywhere in a state value. The storage finds the segments in a
state, writes each one once, and stores only its name in the document; after a restore the bytes
are loaded when ``data`` is first used. Pure: the caller passes the function that loads. What checks values,
``differences``, knows segments, and is therefore imported when it is needed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from .errors import ContractError, CorruptStateError
from .values.stored_json import decode_json

_DIGEST_BYTES = 16


def content_digest(data: bytes) -> str:
    """SHA-256 of ``data``, truncated to 128 bits, in hex: the name of stored content."""
    return hashlib.sha256(data).hexdigest()[: 2 * _DIGEST_BYTES]


class _Bytes(NamedTuple):
    """The bytes of a segment if they are in memory, and the function that fetches stored bytes."""

    data: bytes | None
    load: Callable[[str], bytes] | None


class Segment:
    """An immutable piece of bulk state.

    Only the cache of its bytes changes. Each change replaces ``_cache[0]`` with another pair in one step, so
    that a thread that reads the bytes at the same time sees the old pair or the new one.

    Attributes:
        name: ``<digest>.<kind>.<json|bin>``; equal names mean equal bytes.
        size: number of bytes; None if it is not known without loading them.
    """

    # Not a dataclass: msgspec would store its fields instead of its name.
    __slots__ = ("_cache", "name", "size")

    name: str
    size: int | None
    _cache: list[_Bytes]

    def __init__(
        self,
        name: str,
        *,
        data: bytes | None = None,
        load: Callable[[str], bytes] | None = None,
        size: int | None = None,
    ) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "size", size if data is None else len(data))
        object.__setattr__(self, "_cache", [_Bytes(data, load)])

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a segment is immutable: its {name} cannot be set")

    @classmethod
    def of(cls, kind: str, data: bytes) -> Segment:
        """A segment with new bytes. ``kind`` is a short lower-case word that becomes part of the name."""
        _check_kind(kind)
        return cls(f"{content_digest(data)}.{kind}.bin", data=data)

    @classmethod
    def of_values(cls, kind: str, values: Sequence[Any]) -> Segment:
        """A segment that stores ``values`` as JSON; :meth:`values` decodes them.

        Raises:
            ContractError: a value contains NaN or infinity, which would be decoded as None.
        """
        segment = cls._of_values(kind, values)
        # JSON encodes NaN, infinity and None as null; most values contain no null, and this test is cheap.
        if b"null" in segment.data:
            from .values.differences import non_finite

            number = non_finite(values)
            if number is not None:
                raise ContractError(
                    f"the values of a segment cannot be stored as JSON: {number}, which would be decoded as "
                    "None",
                    remedy="omit such numbers, or store them as text",
                )
        return segment

    @classmethod
    def _of_values(cls, kind: str, values: Sequence[Any]) -> Segment:
        """Like :meth:`of_values`, for values that are known to be storable."""
        _check_kind(kind)
        data = msgspec.json.encode(values, order="deterministic")
        return cls(f"{content_digest(data)}.{kind}.json", data=data)

    @property
    def holds_json(self) -> bool:
        """Whether :meth:`of_values` made the segment."""
        return self.name.endswith(".json")

    @property
    def data(self) -> bytes:
        """The bytes; fetched, and checked against the name, when they are first used."""
        data, load = self._cache[0]
        if data is None:
            if load is None:
                raise CorruptStateError(f"segment {self.name} has neither data nor a place to load it from")
            data = load(self.name)
            if content_digest(data) != self.name.partition(".")[0]:
                raise CorruptStateError(
                    f"the content of segment {self.name} does not match the digest in its name",
                    remedy="restore the file from a backup of the state location, or restart "
                    "from an older checkpoint or a savepoint",
                )
            self._cache[0] = _Bytes(data, load)
        return data

    def forget(self) -> None:
        """Drop the bytes from memory if they can be fetched again."""
        load = self._cache[0].load
        if load is not None:
            self._cache[0] = _Bytes(None, load)

    def stored_by(self, load: Callable[[str], bytes]) -> None:
        """The bytes are durable: from now on ``load`` can fetch them."""
        self._cache[0] = _Bytes(self._cache[0].data, load)

    def values(self, item_type: Any) -> list[Any]:
        """The values of a segment made by :meth:`of_values`."""
        try:
            values: list[Any] = decode_json(self.data, list[item_type])
            return values
        except msgspec.MsgspecError as error:
            raise CorruptStateError(
                f"segment {self.name} cannot be decoded as {item_type} values: {error}"
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.name, self.size, self._cache[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Segment) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Segment({self.name})"


def _restored(name: str, size: int | None, held: _Bytes) -> Segment:
    return Segment(name, data=held.data, load=held.load, size=size)


def _check_kind(kind: str) -> None:
    if re.fullmatch(r"[a-z0-9-]{1,32}", kind) is None:
        raise ContractError(
            f"{kind!r} is not a valid kind of a segment: the kind becomes part of a file name",
            remedy="use 1 to 32 of the characters a-z, 0-9 and -",
        )
