"""Files of web servers as streams that can be read anywhere, also where the server gives no parts of them."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import Any, BinaryIO, cast

from flip27_source.web.content_codings import UnknownCodingError, is_encoded

_SLOWEST_BYTES_PER_S = 1 << 13
_LARGEST_UNKNOWN_BYTES = 1 << 30
_PIECE_BYTES = 1 << 20


def gives_parts(stream: Any) -> bool:
    """Whether a server answers a request for a part of a file with that part.

    Args:
        stream: what fsspec opened; it stays where it is.
    """
    if not stream.size:  # it can only be read from its beginning to its end
        return False
    try:
        stream._fetch_range(1, 2)
    except ValueError:
        return False
    return True


def downloaded(fs: Any, name: str, size: int | None, *, patience_s: float = 300.0) -> BinaryIO:
    """A whole file, in a temporary one that is gone once it is closed.

    Args:
        size: how long it is, as far as that is known; no more is taken.
        patience_s: how long it may take to begin, and how long nothing may arrive.

    Raises:
        Exception: what fsspec and aiohttp raise; also when it takes longer than a modem would.
    """
    import aiohttp

    largest = _LARGEST_UNKNOWN_BYTES if size is None else size
    # By default aiohttp ends every request after five minutes, however much still arrives.
    total_s = patience_s + largest / _SLOWEST_BYTES_PER_S
    timeout = aiohttp.ClientTimeout(total=total_s, sock_read=patience_s)
    with ExitStack() as closing:
        file = closing.enter_context(tempfile.TemporaryFile(prefix="flip27-"))
        with fs.open(name, "rb", block_size=0, size=1, timeout=timeout) as whole:
            if is_encoded(whole.r.headers.get("Content-Encoding", "")):
                raise UnknownCodingError(
                    "the server compresses the file, although the request does not allow it"
                )
            left = largest
            while piece := whole.read(min(_PIECE_BYTES, left + 1)):
                left -= len(piece)
                if left < 0:
                    raise ValueError(f"the server sends more than {largest} bytes")
                file.write(piece)
        file.seek(0)
        closing.pop_all()
    return cast(BinaryIO, file)
