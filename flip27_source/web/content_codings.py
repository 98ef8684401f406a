"""Decompresses bodies of HTTP responses, in small pieces. Pure: no I/O."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

_PIECE_BYTES = 1 << 16
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_COMPRESSIONS = frozenset({"gzip", "x-gzip", "deflate"})


class UnknownCodingError(ValueError):
    """A body has an encoding that was not requested; the message names it."""


class CutOffError(ValueError):
    """A compressed body is truncated or damaged; the message says which."""


def decoded(pieces: Iterable[bytes], content_encoding: str, transfer_encoding: str = "") -> Iterator[bytes]:
    """The body, decompressed if its headers declare compression.

    Raises:
        UnknownCodingError: the body is not compressed once with gzip or zlib.
        CutOffError: the body is truncated or damaged; raised while it is read.
    """
    names = _names(content_encoding)
    others = [name for name in _names(transfer_encoding) if name != "chunked"]
    if others or len(names) > 1 or not _COMPRESSIONS.issuperset(names):
        raise UnknownCodingError(
            f"the response is encoded with {', '.join([*names, *others])}, which was not requested"
        )
    return _inflated(pieces) if names else iter(pieces)


def is_encoded(content_encoding: str) -> bool:
    """Whether a body differs from its file."""
    return bool(_names(content_encoding))


def _names(header: str) -> list[str]:
    names = [name.strip() for name in header.lower().split(",")]
    return [name for name in names if name not in ("", "identity")]


def _inflated(pieces: Iterable[bytes]) -> Iterator[bytes]:
    decoder = None
    try:
        for piece in pieces:
            rest = piece
            while rest:
                if decoder is None or decoder.eof:  # a body may consist of several compressed streams
                    decoder = zlib.decompressobj(_GZIP_OR_ZLIB)
                data = decoder.decompress(rest, _PIECE_BYTES)
                while data:
                    yield data
                    data = decoder.decompress(decoder.unconsumed_tail, _PIECE_BYTES)
                rest = decoder.unused_data
    except zlib.error as error:
        raise CutOffError(f"the compressed body is damaged: {error}") from None
    if decoder is not None and not decoder.eof:
        raise CutOffError("the compressed body is truncated")
