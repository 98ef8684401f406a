"""The archive while others write: nothing is overwritten; an original stays unless its copy is right."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import fsspec
import pytest

from flip27_source.enumerators.files import entries
from flip27_source.enumerators.files.archive import LocalFile
from flip27_source.enumerators.files.cleaning import CleanFile, Cleaning
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import ActionError
from flip27_source.file_systems.durable_files import Disk, DurableFiles
from flip27_source.options import Options
from tests.places import Place
from tests.quick_moto import ACCOUNT, Application
from tests.s3_server import new_bucket, s3_endpoint

from .file_sources import write


class S3WithOthers:
    """S3, which obeys the conditions of a copy (moto does not), with other clients at work.

    Attributes:
        before_a_copy, after_a_copy: what they do, once.
    """

    def __init__(self) -> None:
        self.before_a_copy: list[Callable[[], None]] = []
        self.after_a_copy: list[Callable[[], None]] = []

    def before(self, moto: Application) -> Application:
        def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            source = environ.get("HTTP_X_AMZ_COPY_SOURCE")
            if source is None:
                return moto(environ, start_response)
            while self.before_a_copy:
                self.before_a_copy.pop()()
            if condition := _failed_condition(environ, source):
                start_response("412 Precondition Failed", [("Content-Type", "application/xml")])
                text = "At least one of the pre-conditions you specified did not hold"
                return [
                    f"<Error><Code>PreconditionFailed</Code><Message>{text}</Message>"
                    f"<Condition>{condition}</Condition></Error>".encode()
                ]
            answered = list(moto(environ, start_response))
            while self.after_a_copy:
                self.after_a_copy.pop()()
            return answered

        return answer


def _failed_condition(environ: Mapping[str, Any], source: str) -> str | None:
    if environ.get("HTTP_IF_NONE_MATCH") == "*" and _etag(environ["PATH_INFO"]) is not None:
        return "If-None-Match"
    expected = environ.get("HTTP_X_AMZ_COPY_SOURCE_IF_MATCH")
    if expected is not None and _etag(unquote(source)) != expected:
        return "x-amz-copy-source-If-Match"
    return None


def _etag(path: str) -> str | None:
    """The tag of an object of moto; None if it does not exist."""
    from moto.s3.models import s3_backends

    bucket, _, key = path.lstrip("/").partition("/")
    found: str | None = getattr(s3_backends[ACCOUNT]["aws"].get_object(bucket, key), "etag", None)
    return found


class S3Landing:
    """A bucket with files to archive, and the server that holds it."""

    def __init__(self, server: S3WithOthers, place: Place) -> None:
        self.server, self.place = server, place
        given = {"cleanSource": "archive", "sourceArchiveDir": place.archive, **place.options}
        self.cleaning = Cleaning(Options.parse(given, FilesEnumerator.options), [place.landing])

    def action(self) -> CleanFile:
        """The action for the present version of file ``a``."""
        path = f"{self.place.landing}/a"
        entry = fsspec.filesystem("s3", **self.place.storage_options).info(path)
        return self.cleaning.action_for(
            FileSplit(
                path=path,
                length=entry["size"],
                modified_us=entries.modified_us(entry),
                etag=entries.etag_of(entry),
            )
        )

    def files(self) -> tuple[dict[str, bytes], list[bytes]]:
        return self.place.files("landing"), sorted(self.place.archived().values())


@pytest.fixture
def s3() -> Iterator[S3Landing]:
    server = S3WithOthers()
    with s3_endpoint(server) as endpoint:
        yield S3Landing(server, Place.of(new_bucket(endpoint)))


def test_a_file_that_another_process_puts_into_the_archive_just_before_the_copy_stays(s3: S3Landing) -> None:
    s3.place.put("a", b"mine")
    folder = s3.place.archived_folder
    s3.server.before_a_copy.append(lambda: s3.place.put("a", b"other", folder=folder))
    s3.cleaning.perform(s3.action())
    assert s3.files() == ({}, [b"mine", b"other"])
    assert s3.place.archived()["a"] == b"other"


@pytest.mark.parametrize("newer", [b"new", b"longer"], ids=["the same size", "another size"])
def test_a_version_that_arrives_just_before_the_copy_is_archived_only_once_it_was_read(
    s3: S3Landing, newer: bytes
) -> None:
    s3.place.put("a", b"old")
    action = s3.action()
    s3.server.before_a_copy.append(lambda: s3.place.put("a", newer))
    with pytest.raises(OSError, match="pre-conditions"):
        s3.cleaning.perform(action)
    s3.cleaning.perform(action)  # as it is retried
    assert s3.files() == ({"a": newer}, [])
    s3.cleaning.perform(s3.action())
    assert s3.files() == ({}, [newer])


@pytest.mark.parametrize("copy", [b"dat", b"tada"], ids=["another size", "the same size"])
def test_an_object_stays_if_its_copy_has_other_bytes(s3: S3Landing, copy: bytes) -> None:
    s3.place.put("a", b"data")
    s3.server.after_a_copy.append(lambda: s3.place.put("a", copy, folder=s3.place.archived_folder))
    with pytest.raises(ActionError, match="the copy has other bytes; the original file stays"):
        s3.cleaning.perform(s3.action())
    assert s3.files() == ({"a": b"data"}, [copy])
    s3.cleaning.perform(s3.action())
    assert s3.files() == ({}, sorted([b"data", copy]))


class FarDisk(Disk):
    """Another device than that of the landing folder; it stores other bytes than it was given."""

    def __init__(self, stored: Callable[[bytes], bytes]) -> None:
        self._stored = stored

    def link(self, source: str, target: str, folder: int | None = None) -> None:
        if folder is not None:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        super().link(source, target)

    def write(self, handle: int, data: bytes) -> int:  # type: ignore[override]
        os.write(handle, self._stored(bytes(data)))
        return len(data)


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        (lambda data: data[:3], "3 bytes were copied, 4 were expected"),
        (lambda data: data[::-1], "the copy has other bytes; the original file stays"),
    ],
    ids=["another size", "the same size"],
)
def test_a_local_file_stays_if_its_copy_on_another_device_has_other_bytes(
    tmp_path: Path, stored: Callable[[bytes], bytes], told: str
) -> None:
    write(tmp_path, "a")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        file = LocalFile(folder, "a", 4, lambda: True, DurableFiles("/", FarDisk(stored)))
        with pytest.raises((OSError, ActionError), match=told):
            file.move(f"{tmp_path}/archive/a")
    finally:
        os.close(folder)
    assert (tmp_path / "a").read_bytes() == b"data"
