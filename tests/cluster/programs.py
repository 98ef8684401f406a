"""What runs on hosts of their own, as a run sees it: the S3 server, the server of the query, credentials."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.soak.shapes import Feed

from .environment import CHECKOUT
from .hosts import Host, HostProcess

ISSUED_EVERY_S = 10.0
VALID_S = 25.0
"""How long issued credentials are valid; those before them are valid for a time beside them."""


class Program(HostProcess):
    """A module of this package that obeys lines and answers with lines.

    Args:
        arguments: followed by the address of the host and the seed.
    """

    def __init__(self, host: Host, what: str, *arguments: str, seed: int, folder: Path) -> None:
        command = [sys.executable, "-m", f"tests.cluster.{what}_program", *arguments, host.address, str(seed)]
        super().__init__(
            host, command, log=folder / f"{what}.log",
            environment={**os.environ, "PYTHONPATH": str(CHECKOUT)}, stdout=subprocess.PIPE,
        )  # fmt: skip

    def answer(self) -> str:
        """The next line that the program prints."""
        line = self.stdout.readline().decode().strip()
        if not line:
            raise AssertionError(f"the program has ended: {self.log_tail(60)}")
        return line


class FeedOnS3(Feed):
    """Puts the files on S3."""

    def __init__(self, storage: Program, landing: Path, chance: random.Random) -> None:
        super().__init__(landing, chance)
        self._storage = storage

    def _put(self, name: str, numbers: range) -> None:
        self._storage.tell(f"put {self.landing.name}/{name} {' '.join(map(str, numbers))}")


@contextlib.contextmanager
def issued_credentials(storage: Program, folder: Path) -> Iterator[Path]:
    """Issue credentials all the time, the only valid ones; yield the configuration of AWS that finds them."""
    issued, config = folder / "credentials.json", folder / "aws-config"
    config.write_text(f"[default]\nregion = us-east-1\ncredential_process = cat {issued}\n")
    is_over, is_issued = threading.Event(), threading.Event()

    def issue() -> None:
        number = 0
        while True:
            number, until_s = number + 1, time.time() + VALID_S
            storage.tell(f"issue KEY{number} {until_s}")
            expiration = dt.datetime.fromtimestamp(until_s, dt.UTC).isoformat()
            found = {
                "Version": 1, "AccessKeyId": f"KEY{number}", "SecretAccessKey": "secret",
                "SessionToken": "token", "Expiration": expiration,
            }  # fmt: skip
            hidden = issued.with_suffix(".new")
            hidden.write_text(json.dumps(found))
            hidden.rename(issued)
            is_issued.set()
            if is_over.wait(ISSUED_EVERY_S):
                return

    threading.Thread(target=issue, daemon=True).start()
    is_issued.wait()
    try:
        yield config
    finally:
        is_over.set()
