"""Messages about files: which objects of S3 and which blobs of Azure they name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flip27_source.enumerators.files.notifications.events import events_of_event_grid, events_of_s3
from flip27_source.notifications import FileEvent
from tests.file_queues import blob_event, cloud_event, in_base64, message, through_event_bridge, through_sns

KEY = "a/b c+d%20ü=1.json"
WRITTEN, REMOVED = (FileEvent(path=f"s3://landing/{KEY}", removed=removed) for removed in (False, True))
S3 = [
    (message("landing", KEY), [WRITTEN]),
    (message("landing", KEY, event="ObjectCreated:CompleteMultipartUpload"), [WRITTEN]),
    (message("landing", KEY, event="s3:ObjectCreated:Put"), [WRITTEN]),
    (message("landing", KEY, event="ObjectRemoved:Delete"), [REMOVED]),
    (message("landing", KEY, event="ObjectRemoved:DeleteMarkerCreated"), [REMOVED]),
    (message("landing", KEY, event="LifecycleExpiration:Delete"), [REMOVED]),
    (message("landing", KEY, event="ObjectTagging:Put"), []),
    (message("landing", "1", "2"), [FileEvent(path="s3://landing/1"), FileEvent(path="s3://landing/2")]),
    (through_sns(message("landing", KEY)), [WRITTEN]),
    (through_event_bridge("landing", KEY), [WRITTEN]),
    (through_event_bridge("landing", KEY, "Object Deleted"), [REMOVED]),
    (through_event_bridge("landing", KEY, "Object Tags Added"), []),
    (through_sns(through_event_bridge("landing", KEY)), [WRITTEN]),
    (json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "landing"}), []),
    (through_sns(json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent"})), []),
]
NOT_S3 = [
    ("", "not JSON"),
    ("<xml/>", "not JSON"),
    ("[]", "a JSON list"),
    ("{}", "neither Records nor"),
    ('{"Records": 3}', "not an event of S3"),
    ('{"Records": [{"eventName": "ObjectCreated:Put"}]}', "KeyError: 's3'"),
    ('{"Records": [null]}', "not an event of S3"),
    (message("landing", "a").replace('"key": "a"', '"key": "%FF"'), "UnicodeDecodeError"),
    (message("landing", "a").replace('"key": "a"', '"key": ""'), "do not name an object"),
    (message("landing", "a").replace('"key": "a"', '"key": 7'), "not an event of S3"),
    (message("landing", "a").replace('"key": "a"', r'"key": "\ud800"'), "UnicodeEncodeError"),
    (through_sns("no JSON"), "not JSON"),
    ("[" * 100_000, "nested too deeply"),
    (through_sns(through_sns(through_sns(through_sns(message("landing", "a"))))), "4 envelopes"),
]

NAME = "a/b c%20ü.json"
BLOB = f"abfs://in@shop.dfs.core.windows.net/{NAME}"
WRITTEN_BLOB, REMOVED_BLOB = (FileEvent(path=BLOB, removed=removed) for removed in (False, True))
RENAMED = {"sourceUrl": "https://shop.dfs.core.windows.net/in/a/old%20name"}
OLD_BLOB = "abfs://in@shop.dfs.core.windows.net/a/old name"
AZURE = [
    (in_base64(blob_event("in", NAME)), [WRITTEN_BLOB]),
    (json.dumps([blob_event("in", NAME)]), [WRITTEN_BLOB]),
    (in_base64(cloud_event("in", NAME)), [WRITTEN_BLOB]),
    (in_base64(blob_event("in", NAME, "BlobDeleted")), [REMOVED_BLOB]),
    (
        in_base64(blob_event("in", NAME, "BlobRenamed", **RENAMED)),
        [WRITTEN_BLOB, FileEvent(path=OLD_BLOB, removed=True)],
    ),
    (in_base64(blob_event("in", "a", api="CreateFile")), []),
    (in_base64(blob_event("in", "a", api="SftpCreate")), []),
    (in_base64(blob_event("in", "a", api="SftpWrite")), []),
    (in_base64(blob_event("in", NAME, api="SftpCommit")), [WRITTEN_BLOB]),
    (in_base64(blob_event("in", "a", "BlobTierChanged")), []),
    (in_base64(blob_event("in", "a", "DirectoryCreated")), []),
]
NOT_AZURE = [
    ("<xml/>", "neither JSON nor Base64"),
    ("{", "not JSON"),
    ("{}", "neither eventType nor type"),
    ("[3]", "not an event of Event Grid"),
    (json.dumps({"eventType": "Microsoft.Storage.BlobCreated"}), "KeyError"),
    (json.dumps({**blob_event("in", "a"), "subject": "/somewhere"}), "does not name a blob"),
    (json.dumps(blob_event("in", "\ud800")), "UnicodeEncodeError"),
    ("[" * 100_000, "nested too deeply"),
]


def each(read: Any, cases: list[Any]) -> list[Any]:
    return [(read, *case) for case in cases]


@pytest.mark.parametrize(
    ("events_of", "body", "events"), [*each(events_of_s3, S3), *each(events_of_event_grid, AZURE)]
)
def test_a_message_names_the_files_that_were_written_or_removed(
    events_of: Any, body: str, events: list[FileEvent]
) -> None:
    assert list(events_of(body)) == events


@pytest.mark.parametrize(
    ("events_of", "body", "said"), [*each(events_of_s3, NOT_S3), *each(events_of_event_grid, NOT_AZURE)]
)
def test_a_message_of_another_form_is_refused_with_the_reason(events_of: Any, body: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        events_of(body)
