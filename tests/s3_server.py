"""An S3 server on this machine (moto), for tests of objects in S3."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from unittest import mock

from tests.object_storage import ObjectStorage
from tests.quick_moto import Front

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Bucket(ObjectStorage):
    protocol = "s3"


@contextlib.contextmanager
def s3_endpoint(front: Front | None = None, address: str = "127.0.0.1") -> Iterator[str]:
    """Run a server; yields its URL. ``front`` may answer some of the requests instead."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address=address, port=0, verbose=False)
    server.start()
    if front is not None:
        wsgi = server._server
        wsgi.app = front.before(wsgi.app)
    host, port = server.get_host_and_port()
    try:
        with mock.patch.dict(os.environ, CREDENTIALS):
            yield f"http://{host}:{port}"
    finally:
        server.stop()


def new_bucket(endpoint: str) -> S3Bucket:
    """A new bucket on the server."""
    return S3Bucket.new(storage_options={"endpoint_url": endpoint, "key": "test", "secret": "test"})
