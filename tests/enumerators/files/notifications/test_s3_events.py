"""Messages about S3 objects: which files they name."""

from __future__ import annotations

import json

import pytest

from flip27_source.enumerators.files.notifications.events import events_of_s3 as events_of
from flip27_source.notifications import FileEvent
from tests.file_queues import message, through_event_bridge, through_sns

WRITTEN = FileEvent(path="s3://landing/a/b c+d%20ü=1.json")
REMOVED = FileEvent(path="s3://landing/a/b c+d%20ü=1.json", removed=True)
KEY = "a/b c+d%20ü=1.json"


@pytest.mark.parametrize(
    ("body", "events"),
    [
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
    ],
)
def test_a_message_names_the_objects_that_were_written_or_removed(body: str, events: list[FileEvent]) -> None:
    assert list(events_of(body)) == events


@pytest.mark.parametrize(
    ("body", "said"),
    [
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
    ],
)
def test_a_message_of_another_form_is_refused_with_the_reason(body: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        events_of(body)
