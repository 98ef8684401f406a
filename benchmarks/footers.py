"""How fast event times are found in footers: ``python -m benchmarks.event_time --footers s3``.

S3 is moto in this process, whose answers take as long as those of a store: what is measured is the number of
requests and how many are under way at once, not the speed of a store.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flip27_source.enumerators.files.event_times import EventTimes
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.source import Source
from tests.quick_moto import quick_answers
from tests.s3_server import new_bucket, s3_endpoint

LATENCY_MS = 30


def rates(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """The files of a second whose times are found, for each format, and the requests for one of them."""
    found: dict[str, Any] = {}
    for reader in ("parquet", "orc"):
        paths = sorted((folder / reader).iterdir())
        with _stored(paths, given.footers) as (root, options, requests):
            base = {"path": root, "reader": reader, "eventTimeOrder": "true", "eventTimeColumn": "at"}
            source = Source.resolve({**base, "timeZone": "UTC", **options})
            times = EventTimes.of(source.options, source.reader_type)
            assert times is not None, "eventTimeOrder is set"
            files = [
                FileSplit(path=f"{root}/{path.name}", length=path.stat().st_size, modified_us=0)
                for path in paths
            ]
            times.timed(files[:1])
            requests.clear()
            started_s = time.monotonic()
            if not all(file.event_time for file in times.timed(files)):
                raise RuntimeError("the times of a file are not known")
            seconds = time.monotonic() - started_s
        each = {method: round(count / len(files), 2) for method, count in requests.items()}
        found[reader] = {
            "files": len(files),
            "files_per_second": round(len(files) / seconds),
            "requests": each,
        }
    return found


@contextlib.contextmanager
def _stored(paths: list[Path], where: str) -> Iterator[tuple[str, dict[str, str], Counter[str]]]:
    """The files in a folder or a bucket, its options, and the requests to come."""
    if where == "local":
        yield str(paths[0].parent), {}, Counter()
        return
    with s3_endpoint() as url, quick_answers(url) as quick:
        bucket = new_bucket(quick.url)
        for path in paths:
            bucket.file_system.pipe_file(f"{bucket.name}/in/{path.name}", path.read_bytes())
        quick.latency_s = LATENCY_MS / 1000
        yield f"{bucket.url}/in", bucket.options, quick.requests


def measured(write: Any, given: argparse.Namespace) -> dict[str, Any]:
    """Write the files in both formats, and find their times."""
    with tempfile.TemporaryDirectory() as folder:
        for reader in ("parquet", "orc"):
            write(Path(folder, reader), given, reader)
        return rates(Path(folder), given)
