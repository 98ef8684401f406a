"""Segments: immutable bulk state, named by content, shared by checkpoint documents.

An author puts a :class:`Segment` anywhere in a state value. The storage finds the segments in a
state, writes each one once, and stores only its name in the document; after a restore the bytes
are loaded when ``data`` is first used. Pure: the caller passes the function that loads.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from .errors import ContractError, CorruptStateError
from .values.stored_json import decode_json

_DIGEST_BYTES = 16


def content_digest(data: bytes) -> str:
    """SHA-256 of ``data``, truncated to 128 bits, in hex: the name of stored content."""
    return hashlib.sha256(data).hexdigest()[: 2 * _DIGEST_BYTES]


class Segment:
    """An immutable piece of bulk state.

    Attributes:
        name: ``<digest>.<kind>.<json|bin>``; equal names mean equal bytes.
        size: number of bytes; None if it is not known without loading them.
    """

    __slots__ = ("_data", "_load", "name", "size")

    def __init__(
        self,
        name: str,
        *,
        data: bytes | None = None,
        load: Callable[[str], bytes] | None = None,
        size: int | None = None,
    ) -> None:
        self.name = name
        self.size = size if data is None else len(data)
        self._data = data
        self._load = load

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
            _check_finite(values)
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
        """The bytes; loaded and checked against the name at first use."""
        data = self._data  # read once: another thread may call forget()
        if data is None:
            if self._load is None:
                raise CorruptStateError(f"segment {self.name} has neither data nor a place to load it from")
            data = self._load(self.name)
            if content_digest(data) != self.name.partition(".")[0]:
                raise CorruptStateError(
                    f"the content of segment {self.name} does not match the digest in its name",
                    remedy="restore the file from a backup of the state location, or restart "
                    "from an older checkpoint or a savepoint",
                )
            self._data = data
        return data

    def forget(self) -> None:
        """Drop the bytes from memory if they can be loaded again."""
        if self._load is not None:
            self._data = None

    def stored_by(self, load: Callable[[str], bytes]) -> None:
        """The bytes are durable: from now on ``load`` can load them."""
        self._load = load

    def values(self, item_type: Any) -> list[Any]:
        """The values of a segment made by :meth:`of_values`."""
        try:
            values: list[Any] = decode_json(self.data, list[item_type])
            return values
        except msgspec.MsgspecError as error:
            raise CorruptStateError(
                f"segment {self.name} cannot be decoded as {item_type} values: {error}"
            ) from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Segment) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Segment({self.name})"


def _check_finite(values: Sequence[Any]) -> None:
    from .values.differences import non_finite

    found = non_finite(values)
    if found is not None:
        raise ContractError(
            f"the values of a segment cannot be stored as JSON: {found}, which would be decoded as None",
            remedy="omit such numbers, or store them as text",
        )


def _check_kind(kind: str) -> None:
    if re.fullmatch(r"[a-z0-9-]{1,32}", kind) is None:
        raise ContractError(
            f"{kind!r} is not a valid kind of a segment: the kind becomes part of a file name",
            remedy="use 1 to 32 of the characters a-z, 0-9 and -",
        )
