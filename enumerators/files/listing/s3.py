"""Lists S3: whole pages of keys, from a given key on, several prefixes at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from flip27_source.enumerators.files.entries import etag_of, modified_us
from flip27_source.enumerators.files.listing.errors import not_answered
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
            found = self._fs.call_s3("head_object", Bucket=bucket, Key=key)
        except FileNotFoundError:
            return None
        except PermissionError:
            # One such object must not stop discovery: when it is read, onSplitError decides.
            listed = self._page(bucket, key, None).get("Contents") or ()
            return next((_known(item)() for item in listed if item["Key"] == key), None)
        except Exception as error:
            raise not_answered(f"s3://{name}", error) from error
        return FileInfo(int(found["ContentLength"]), modified_us(found), etag_of(found))

    def _files_of(self, folder: str, *, recursive: bool, after: str | None = None) -> Iterator[FileFound]:
        bucket, _, key = folder.partition("/")
        prefix = f"{key}/" if key else ""
        start = None if after is None else after.partition("/")[2]
        pages = (
            self._all_pages(bucket, prefix, start)
            if recursive
            else self._pages(bucket, prefix, start, delimiter="/")
        )
        for page in pages:
            for below in page.get("CommonPrefixes") or ():
                name = below["Prefix"][len(prefix) :].rstrip("/")
                if not recursive and is_partition(name) and not is_hidden(name):
                    found = f"{bucket}/{below['Prefix'].rstrip('/')}"
                    yield from self._files_of(found, recursive=False, after=after)
            for item in page.get("Contents") or ():
                found_key: str = item["Key"]
                rest = found_key[len(prefix) :]
                if not rest or rest.endswith("/") or any(is_hidden(part) for part in rest.split("/")):
                    continue
                yield f"s3://{bucket}/{found_key}", _known(item)

    def _all_pages(self, bucket: str, prefix: str, after: str | None) -> Iterator[Page]:
        """Every page below the prefix; after the first page, several prefixes are listed at once."""
        first = self._page(bucket, prefix, after)
        yield first
        if not first.get("IsTruncated"):
            return
        last: str = first["Contents"][-1]["Key"]
        top = self._page(bucket, prefix, None, delimiter="/")
        below = [item["Prefix"] for item in top.get("CommonPrefixes") or ()]
        if top.get("IsTruncated") or not 2 <= len(below) <= _MOST_PREFIXES:
            yield from self._pages(bucket, prefix, last)
            return
        yield {"Contents": [item for item in top.get("Contents") or () if item["Key"] > last]}
        wanted = [
            one
            for one in below
            if (one > last or last.startswith(one)) and not is_hidden(one[len(prefix) :].rstrip("/"))
        ]
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="flip27-list") as threads:
            for pages in threads.map(lambda one: list(self._pages(bucket, one, last)), wanted):
                yield from pages

    def _pages(
        self, bucket: str, prefix: str, after: str | None, *, delimiter: str | None = None
    ) -> Iterator[Page]:
        token: str | None = None
        while True:
            page = self._page(bucket, prefix, after, delimiter=delimiter, token=token)
            yield page
            token = page.get("NextContinuationToken")
            if not page.get("IsTruncated") or token is None:
                return

    def _page(
        self,
        bucket: str,
        prefix: str,
        after: str | None,
        *,
        delimiter: str | None = None,
        token: str | None = None,
    ) -> Page:
        asked = {
            "Bucket": bucket,
            "MaxKeys": self.page_keys,
            "Prefix": prefix,
            "StartAfter": after if token is None else None,
            "Delimiter": delimiter,
            "ContinuationToken": token,
        }
        given = {name: value for name, value in asked.items() if value is not None}
        page: Page = self._fs.call_s3("list_objects_v2", **given)
        return page


def _known(item: Mapping[str, Any]) -> Any:
    return lambda: FileInfo(int(item["Size"]), modified_us(item), etag_of(item))
