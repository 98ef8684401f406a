"""Files of web servers as streams that can be read anywhere, also where the server gives no parts of them."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from typing import Any, BinaryIO, cast

_SILENCE_S = 300.0
_CHUNK_BYTES = 1 << 20


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


def downloaded(fs: Any, name: str) -> BinaryIO:
    """A whole file, in a temporary one that is gone once it is closed.

    Raises:
        Exception: what fsspec and aiohttp raise; also when nothing arrives for five minutes.
    """
    import aiohttp

    # By default aiohttp ends every request after five minutes, however much still arrives.
    how = {"block_size": 0, "size": 1, "timeout": aiohttp.ClientTimeout(total=None, sock_read=_SILENCE_S)}
    with ExitStack() as closing:
        file = closing.enter_context(tempfile.TemporaryFile(prefix="flip27-"))
        with fs.open(name, "rb", **how) as whole:
            shutil.copyfileobj(whole, file, _CHUNK_BYTES)
        file.seek(0)
        closing.pop_all()
    return cast(BinaryIO, file)
