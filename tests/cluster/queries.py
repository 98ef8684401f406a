"""The queries on the cluster: where their data and state are, and how their rows are counted.

Checkpoint and sink are always in a folder that every host sees, as a shared mount: Spark can write them to S3
only with Hadoop's jars for it, which PySpark has not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from tests.soak.shapes import Archived, Count, Files, Places, Talking
from tests.soak.table_copies import TableCopy
from tests.soak.topic_copies import TopicCopy


@dataclass(frozen=True, slots=True, kw_only=True)
class OnS3(Places):
    """Files and state on S3.

    Attributes:
        bucket: the URL of the bucket.
        storage: the options ``storage.*`` of the source.
    """

    bucket: str
    storage: Mapping[str, str]

    def source_options(self, feed: str) -> dict[str, str]:
        return {"path": f"{self.bucket}/landing-{feed}", **self.state_options(feed)}

    def state_options(self, name: str) -> dict[str, str]:
        return {"stateLocation": f"{self.bucket}/state-{name}", **self.storage}


class FilesOnS3(Files):
    """Files on S3 to Parquet."""

    name = "files-on-s3"


class ArchivedOnS3(Archived):
    """Files are archived on S3 once read; tasks report. Spark and flip27 retain two batches."""

    name = "archived-on-s3"
    files: Mapping[str, str] | None = None
    """The files that are on S3 at the end, with their texts."""

    def writer(self, spark: SparkSession) -> DataStreamWriter:
        assert isinstance(self.places, OnS3)
        options = {
            "retainedCheckpoints": "2",
            "taskReports": "always",
            "cleanSource": "archive",
            "sourceArchiveDir": f"{self.places.bucket}/archive",
        }
        return self._to_lake(self._files(spark, **options))

    def count(self, arrived: int) -> Count:
        assert self.files is not None
        found = Counter(row["number"] for row in self._lake_rows())
        kept = Counter(int(line) for text in self.files.values() for line in text.split())
        wanted = Counter(range(arrived))
        told = [
            f"{difference.total()} rows of files are {what}"
            for what, difference in (("gone", wanted - kept), ("there twice", kept - wanted))
            if difference
        ]
        return Count.of(found, range(arrived), "; ".join(told))


class TalkingOnS3(Talking):
    """A source whose enumerator and readers exchange counted events; its state is on S3."""

    name = "talking-on-s3"


class TablesOnAServer(TableCopy):
    """Tables of a PostgreSQL server on a host of its own, which are written meanwhile; the state is on S3."""

    name = "tables"
    server = "postgres"


class TopicsOnAServer(TopicCopy):
    """Topics of a Kafka broker on a host of its own, which are written meanwhile; the state is on S3."""

    name = "topics"
    server = "kafka"


class WithRotatedCredentials(FilesOnS3):
    """Files on S3, whose credentials expire and are issued anew all the time."""

    name = "rotated-credentials"
    has_issued_credentials = True


class FilesOnAMount(Files):
    """Files and state in a folder that every host sees."""

    name = "files-on-a-mount"
    is_on_s3 = False


def places_of(query: str, root: Path, bucket: str, storage: Mapping[str, str]) -> Places:
    """The places of a query, whose checkpoint and sink are below ``root``."""
    if getattr(QUERIES[query], "is_on_s3", True):
        return OnS3(root=root, state=root / "state", bucket=bucket, storage=storage)
    return Places(root=root, state=root / "state")


QUERIES: dict[str, Any] = {
    query.name: query
    for query in (
        FilesOnS3,
        ArchivedOnS3,
        TalkingOnS3,
        FilesOnAMount,
        TablesOnAServer,
        TopicsOnAServer,
        WithRotatedCredentials,
    )
}
