"""A Google Cloud Storage server on this machine (gcp-storage-emulator), for tests of objects in its buckets.

The emulator ignores preconditions. The one that flip27 needs, ``ifGenerationMatch=0``, is added here.
"""

from __future__ import annotations

import functools
import json
import os
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import HTTPServer
from io import BytesIO

from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.server import RequestHandler
from gcp_storage_emulator.storage import Storage

from tests.object_storage import ObjectStorage
from tests.postgres_server import HOST
from tests.server_process import LosesClients, served

# Otherwise gcsfs requests the kind of each bucket by gRPC, which the emulator does not speak.
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")


@dataclass(frozen=True, slots=True, kw_only=True)
class GcsBucket(ObjectStorage):
    protocol = "gs"


class WithPreconditions(RequestHandler):
    """Obeys ``ifGenerationMatch=0``: creates only what does not exist. Handles one request at a time."""

    def do_POST(self) -> None:
        if "ifGenerationMatch=0" in self.path and self._exists():
            self._refuse()
        else:
            super().do_POST()

    def _exists(self) -> bool:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.rfile = BytesIO(body)
        # A small upload has two parts: the object's name and other metadata, then its content.
        metadata = body.split(b"\n\n", 2)[1].partition(b"\n--")[0]
        bucket = urllib.parse.urlsplit(self.path).path.split("/")[-2]
        try:
            self.storage.get_file_obj(urllib.parse.unquote(bucket), json.loads(metadata)["name"])
        except NotFound:
            return False
        return True

    def _refuse(self) -> None:
        self.send_response(HTTPStatus.PRECONDITION_FAILED)
        self.end_headers()
        self.wfile.write(b'{"error": {"code": 412, "message": "conditionNotMet"}}')


class _Server(LosesClients, HTTPServer):
    request_queue_size = 128


@contextmanager
def gcs_endpoint(handler: type[RequestHandler] = WithPreconditions) -> Iterator[str]:
    """Run a server; yields its URL. ``RequestHandler`` is the unchanged emulator, without preconditions."""
    with served(_Server((HOST, 0), functools.partial(handler, Storage(use_memory_fs=True)))) as url:
        yield url


def new_gcs_bucket(endpoint: str) -> GcsBucket:
    """A new bucket on the server."""
    return GcsBucket.new(storage_options={"endpoint_url": endpoint, "token": "anon", "project": "tests"})
