"""A link to a server that may lose connections and hold data back: a TCP proxy."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Callable, Iterator

CHUNK_BYTES = 16 << 10
LOST = 0.03
"""The probability that the connection is lost with a chunk, in the middle of a request or an answer."""
HELD_BACK = 0.1
LONGEST_S = 2.0


@contextlib.contextmanager
def link(address: str, port: int, is_lossy: Callable[[], bool], chance: random.Random) -> Iterator[str]:
    """Listen at the address, and connect whoever comes with the port of 127.0.0.1; yields the URL."""

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(CHUNK_BYTES):
            if is_lossy():
                if chance.random() < LOST:
                    raise ConnectionAbortedError
                if chance.random() < HELD_BACK:
                    await asyncio.sleep(chance.uniform(0.0, LONGEST_S))
            target.write(data)
            await target.drain()
        target.write_eof()

    async def connected(near_reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        far_reader, far = await asyncio.open_connection("127.0.0.1", port)
        try:
            await asyncio.gather(copy(near_reader, far), copy(far_reader, near))
        except OSError:
            # Without the usual end, so that the other side does not take what it has for the whole.
            for side in (near, far):
                side.transport.abort()
        finally:
            for side in (near, far):
                side.close()

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(connected, address, 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{address}:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
