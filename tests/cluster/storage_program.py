"""The S3 server of the cluster (moto) on its host, with faults; its commands are lines of standard input.

``put <key> <numbers>`` stores a file with a line for each number, at once and whatever the faults are;
``files`` prints the files below the landing folder and the archive as JSON; ``issue <key> <until>`` has
requests refused that are not signed with one of the issued keys, until their times; ``slow``, ``failing``,
``twice``, ``expired``, ``lossy`` and ``sound`` say how requests are answered from then on. The first line of
standard output is the endpoint. Its arguments are a bucket, the address of the host and a seed.
"""

from __future__ import annotations

import io
import json
import logging
import random
import re
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

from flip27_source.cli.demo.process import obey_parent
from tests.quick_moto import ACCOUNT, Application
from tests.s3_server import s3_endpoint
from tests.slow_down import SLOW_DOWN

from .lossy_link import link

SLOW_S = 2.0
DONE_NEVERTHELESS = 0.3
"""The share of requests that are carried out although the answer is an error."""


EXPIRED = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n'
    b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
)
_KEY = re.compile(r"Credential=([^/]+)/")


class Faults:
    """Answers requests as an S3 with a fault would (``Front``)."""

    def __init__(self, seed: str) -> None:
        self.fault = "sound"
        self.issued: dict[str, float] = {}
        """The keys that were issued, with the times at which they expire; empty if all keys are valid."""
        self._chance = random.Random(seed)
        self._lock = threading.Lock()

    def before(self, moto: Application) -> Application:
        """The application that is asked instead of ``moto``."""

        def answer(request: dict[str, Any], start: Any) -> Iterable[bytes]:
            fault = self.fault
            if fault == "slow":
                time.sleep(SLOW_S)  # the fault itself
            if fault == "failing":
                if self._draw() < DONE_NEVERTHELESS:
                    _carry_out(moto, request)
                return _refused(request, start, "503 Slow Down", SLOW_DOWN)
            if fault == "expired" or self._has_expired(request):
                return _refused(request, start, "400 Bad Request", EXPIRED)
            if fault == "twice":
                _carry_out(moto, request)
            return moto(request, start)

        return answer

    def _has_expired(self, request: dict[str, Any]) -> bool:
        if not self.issued:
            return False
        key = _KEY.search(request.get("HTTP_AUTHORIZATION", ""))
        return key is None or self.issued.get(key[1], 0.0) < time.time()

    def _draw(self) -> float:
        with self._lock:
            return self._chance.random()


def _refused(request: dict[str, Any], start: Any, status: str, body: bytes) -> Iterable[bytes]:
    start(status, [("Content-Type", "application/xml")])
    return [] if request["REQUEST_METHOD"] == "HEAD" else [body]


def _carry_out(moto: Application, request: dict[str, Any]) -> None:
    """Carry out a request whose answer is lost, and leave the request as it was."""
    body = request["wsgi.input"].read(int(request.get("CONTENT_LENGTH") or 0))
    answer = moto({**request, "wsgi.input": io.BytesIO(body)}, lambda *_: None)
    for _ in answer:
        pass
    request["wsgi.input"] = io.BytesIO(body)


def main(bucket: str, address: str, seed: str) -> None:
    from moto.s3.models import s3_backends

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    faults = Faults(seed)
    backend: Any = s3_backends[ACCOUNT]["aws"]
    backend.create_bucket(bucket, "us-east-1")

    def obey(line: str) -> None:
        command, *rest = line.split(" ")
        if command == "put":
            key, *numbers = rest
            backend.put_object(bucket, key, "".join(f"{number}\n" for number in numbers).encode())
        elif command == "files":
            keys = backend.get_bucket(bucket).keys.items()
            found = {key: each.value.decode() for key, each in keys if key.startswith(("landing", "archive"))}
            print(json.dumps(found), flush=True)
        elif command == "issue":
            key, until = rest
            faults.issued[key] = float(until)
        else:
            faults.fault = command

    chance = random.Random(f"{seed} link")
    with (
        s3_endpoint(faults) as moto,
        link(address, int(moto.rpartition(":")[2]), lambda: faults.fault == "lossy", chance) as endpoint,
    ):
        obey_parent(obey)
        print(endpoint, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
