"""Sealed JSON: the content of a small state file, with the digest of its exact bytes."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ..errors import CorruptStateError, IncompatibleStateError
from ..segment import content_digest
from ..values.stored_json import decode_json, format_of

Content = TypeVar("Content")


class BrokenSealError(ValueError):
    """The content does not match its digest."""


def seal(part: str, content: msgspec.Struct | msgspec.Raw) -> bytes:
    """Canonical JSON of the content under the name ``part``, with its digest.

    Raises:
        TypeError, ValueError: the content cannot be encoded as JSON.
    """
    data = msgspec.json.encode(content, order="sorted")
    return msgspec.json.encode({"digest": content_digest(data), part: msgspec.Raw(data)}, order="sorted")


def unseal(part: str, data: bytes) -> bytes:
    """The content under the name ``part``, as JSON.

    Raises:
        BrokenSealError: the content was altered.
        msgspec.MsgspecError: the data is truncated or not sealed JSON.
    """
    sealed = decode_json(data, dict[str, msgspec.Raw])
    try:
        content, digest = bytes(sealed[part]), decode_json(sealed["digest"], str)
    except KeyError as error:
        raise msgspec.ValidationError(f"Object missing required field `{error.args[0]}`") from None
    if content_digest(content) != digest:
        raise BrokenSealError(f"does not match its digest ({len(data)} bytes)")
    return content


def decode_sealed(
    data: bytes, part: str, kind: type[Content], *, what: str, formats: tuple[int, ...], remedy: str
) -> Content:
    """The content of a sealed file.

    Args:
        what: the file, for messages: "report <path>".
        formats: the formats that are accepted.
        remedy: what to do if the file is damaged.

    Raises:
        CorruptStateError: the file is truncated or altered.
        IncompatibleStateError: the file has another format.
    """
    try:
        content = unseal(part, data)
        number = format_of(content)
        if number not in formats:
            raise IncompatibleStateError(
                f"{what} has format {number}; this library reads {max(formats)}",
                remedy="install the version of flip27-source that wrote the file, or a newer one",
            )
        return decode_json(content, kind)
    except BrokenSealError as error:
        raise CorruptStateError(f"{what} {error}", remedy=remedy) from None
    except msgspec.MsgspecError as error:
        raise CorruptStateError(f"{what} cannot be read: {error}", remedy=remedy) from error
