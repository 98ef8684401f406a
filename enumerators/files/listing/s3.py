"""Lists S3: whole pages of keys, from a given key on, several prefixes at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from flip27_source.enumerators.files.entries import etag_of, modified_us
from flip27_source.enumerators.files.listing.errors import not_answered, refuse_sink_log
from flip27_source.enumerators.files.listing.fsspec_systems import FsspecLister
from flip27_source.enumerators.files.listing.lister import FileFound, FileInfo, is_hidden, is_partition
from flip27_source.file_systems.paths import listed_name

_THREADS = 8
_MOST_PREFIXES = 64
"""With more prefixes, each probably has few keys, and listing all keys by pages takes fewer requests."""

Page = Mapping[str, Any]


class S3Lister(FsspecLister):
    """Lists a bucket by S3's own calls: a page of 1,000 keys is one request, and nothing is cached."""

    page_keys = 1000
    """The most keys that S3 returns in one page."""

    def files_after(self, path: str, *, recursive: bool) -> Iterator[FileFound]:
        """One request if no key comes after ``path``; with a glob, all keys are listed."""
        # Inside a partition, the start key would also exclude the folders before the partition.
        if self._is_file or self._levels or (not recursive and "=" in path):
            return super().files_after(path, recursive=recursive)
        return self._files_of(self._root, recursive=recursive, after=listed_name(path))

    def _name_of(self, path: str) -> str | None:
        protocol, _, name = path.partition("://")
        return name if protocol in ("s3", "s3a") else None

    def _info_of(self, name: str) -> FileInfo | None:
        """From a HEAD request; for an object that may be listed but not read, its entry in the listing."""
        bucket, _, key = name.partition("/")
        try:
            head = self._fs.call_s3("head_object", Bucket=bucket, Key=key)
        except FileNotFoundError:
            return None
        except PermissionError:
            # One such object must not stop discovery: when it is read, onSplitError decides.
            listed = self._page(Bucket=bucket, Prefix=key).get("Contents") or ()
            return next((_info(item) for item in listed if item["Key"] == key), None)
        except Exception as error:
            raise not_answered(f"s3://{name}", error, self._fs) from error
        return FileInfo(int(head["ContentLength"]), modified_us(head), etag_of(head))

    def _files_of(self, folder: str, *, recursive: bool, after: str | None = None) -> Iterator[FileFound]:
        bucket, _, key = folder.partition("/")
        prefix = f"{key}/" if key else ""
        start = None if after is None else after.partition("/")[2]
        if recursive:
            pages = self._all_pages(bucket, prefix, start)
        else:
            pages = self._pages(bucket, prefix, start, delimiter="/")
        for page in pages:
            for below in page.get("CommonPrefixes") or ():
                name = below["Prefix"][len(prefix) :].rstrip("/")
                refuse_sink_log(name, f"s3://{folder}")
                if not recursive and is_partition(name) and not is_hidden(name):
                    partition = f"{bucket}/{below['Prefix'].rstrip('/')}"
                    yield from self._files_of(partition, recursive=False, after=after)
            for item in page.get("Contents") or ():
                parts = item["Key"][len(prefix) :].split("/")
                if any(map(is_hidden, parts)):
                    refuse_sink_log(parts[0], f"s3://{folder}")
                elif parts[-1]:
                    yield f"s3://{bucket}/{item['Key']}", partial(_info, item)

    def _all_pages(self, bucket: str, prefix: str, after: str | None) -> Iterator[Page]:
        """Every page below the prefix; after the first page, several prefixes are listed at once."""
        first = self._page(Bucket=bucket, Prefix=prefix, StartAfter=after)
        yield first
        if not first.get("IsTruncated"):
            return
        last: str = first["Contents"][-1]["Key"]
        top = self._page(Bucket=bucket, Prefix=prefix, Delimiter="/")
        below = [item["Prefix"] for item in top.get("CommonPrefixes") or ()]
        if top.get("IsTruncated") or not 2 <= len(below) <= _MOST_PREFIXES:
            yield from self._pages(bucket, prefix, last)
            return
        yield {"Contents": [item for item in top.get("Contents") or () if item["Key"] > last]}
        left = [
            folder
            for folder in below
            if (folder > last or last.startswith(folder)) and not is_hidden(folder[len(prefix) :].rstrip("/"))
        ]
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="flip27-list") as threads:
            for pages in threads.map(lambda folder: list(self._pages(bucket, folder, last)), left):
                yield from pages

    def _pages(
        self, bucket: str, prefix: str, after: str | None, *, delimiter: str | None = None
    ) -> Iterator[Page]:
        page = self._page(Bucket=bucket, Prefix=prefix, StartAfter=after, Delimiter=delimiter)
        yield page
        while page.get("IsTruncated") and (token := page.get("NextContinuationToken")) is not None:
            page = self._page(Bucket=bucket, Prefix=prefix, Delimiter=delimiter, ContinuationToken=token)
            yield page

    def _page(self, **parameters: str | None) -> Page:
        given = {name: value for name, value in parameters.items() if value is not None}
        page: Page = self._fs.call_s3("list_objects_v2", MaxKeys=self.page_keys, **given)
        return page


def _info(item: Mapping[str, Any]) -> FileInfo:
    return FileInfo(int(item["Size"]), modified_us(item), etag_of(item))
