"""Files of web servers as seekable streams, even if the server does not support range requests."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import Any, BinaryIO, cast

from flip27_source.web.content_codings import UnknownCodingError, is_encoded

_SLOWEST_BYTES_PER_S = 1 << 13
_LARGEST_UNKNOWN_BYTES = 1 << 30
_PIECE_BYTES = 1 << 20


def gives_parts(stream: Any) -> bool:
    """True if a server supports range requests for a file.

    Args:
        stream: the stream from fsspec; its position does not change.
    """
    if not stream.size:  # such a stream can only be read from start to end
        return False
    try:
        stream._fetch_range(1, 2)
    except ValueError:
        return False
    return True


def downloaded(fs: Any, name: str, size: int | None, *, patience_s: float = 300.0) -> BinaryIO:
    """Download a whole file to a temporary file, which is deleted when it is closed.

    Args:
        size: the length of the file if it is known; a longer answer is an error.
        patience_s: the maximum wait for the start and for more data.

    Raises:
        Exception: the errors of fsspec and aiohttp, including a timeout if the transfer is very slow.
    """
    import aiohttp

    largest = _LARGEST_UNKNOWN_BYTES if size is None else size
    # By default, aiohttp cancels every request after five minutes, even if data still arrives.
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
