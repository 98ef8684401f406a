"""Blobs that are found by the messages of Event Grid in a Storage Queue, on a real server."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import BlobServiceClient

from flip27_source.enumerators.files.listing.choice import open_listers
from flip27_source.enumerators.files.notifications import inbox
from flip27_source.enumerators.files.notifications.azure_queue import AzureQueue
from flip27_source.errors import DiscoveryError
from flip27_source.options import Options
from flip27_source.testing import MicroBatchEngine
from flip27_source.testing.spark_side import as_value
from tests.azurite_server import AzureContainer, Azurite
from tests.deadline import until
from tests.file_queues import blob_event, in_base64


@dataclass(frozen=True, slots=True, kw_only=True)
class Blobs:
    """A container and a queue on the same server."""

    container: AzureContainer
    url: str
    queue: AzureQueue

    def put(self, *names: str) -> None:
        for name in names:
            self.container.file_system.pipe_file(f"{self.container.name}/{name}", name.encode())

    def send(self, *names: str, kind: str = "BlobCreated") -> None:
        for name in names:
            self.queue.client.send_message(
                in_base64(blob_event(self.container.name, name, kind, account=self.container.account))
            )

    @property
    def left(self) -> int:
        return int(self.queue.client.get_queue_properties().approximate_message_count)

    def options(self, state: Path, path: str) -> dict[str, str]:
        return {
            "enumerator": "files", "reader": "text", "path": path, "discovery": "notifications",
            "notificationQueues": self.url, "stateLocation": str(state), **self.container.options,
        }  # fmt: skip


@pytest.fixture
def blobs(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> Blobs:
    monkeypatch.setattr(inbox, "_SHORT_POLL_S", 0.0)
    container = azurite.container()
    url = f"{azurite.queue_url}/{container.name}"
    queue = AzureQueue(url, Options.parse(container.options, ()))
    queue.client.create_queue()
    return Blobs(container=container, url=url, queue=queue)


def read(engine: MicroBatchEngine) -> Counter[Any]:
    return Counter(row[0] for row in engine.rows)


@pytest.mark.parametrize("with_account", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_each_blob_is_read_once_by_messages_or_by_the_listing(
    blobs: Blobs, tmp_path: Path, *, with_account: bool
) -> None:
    container = blobs.container
    path = f"{container.url}/landing" if with_account else f"abfs://{container.name}/landing"
    blobs.put("landing/first")
    engine = MicroBatchEngine(blobs.options(tmp_path, path), available_now=True)
    engine.process_all_available()
    blobs.put("landing/a", "landing/b c", "landing/lost", "elsewhere/e")
    blobs.send("landing/a", "landing/b c", "landing/a", "landing/first", "elsewhere/e", "landing/never-there")
    blobs.queue.client.send_message("<poison/>")
    engine.restart()
    engine.process_all_available()
    assert read(engine) == Counter(["landing/first", "landing/a", "landing/b c", "landing/lost"])
    gauges = engine.holder.coordinator_at(as_value(engine.logs.offsets[-1])).gauges
    assert (gauges["filesFoundByListing"], gauges["messagesSetAside"]) == (1, 1)
    until(lambda: blobs.left == 0, lambda: blobs.left)


def test_an_entry_has_the_information_of_the_listing(blobs: Blobs) -> None:
    blobs.put("landing/a", "landing/k=1/b")
    lister = open_listers([f"{blobs.container.url}/landing"], blobs.container.storage_options)
    listed = {path: info() for path, info in lister.files(recursive=False)}
    entries = {path: lister.entry(path, recursive=False) for path in listed}
    assert {path: entry and (entry[0], entry[1]()) for path, entry in entries.items()} == {
        path: (path, info) for path, info in listed.items()
    }
    gone = lister.entry(f"{blobs.container.url}/landing/gone", recursive=False)
    assert gone is not None
    assert gone[1]() is None
    other = f"{blobs.container.url}/landing/a".replace(blobs.container.account, "another")
    assert lister.entry(other, recursive=False) is None


def test_a_marker_of_a_folder_is_not_a_file(blobs: Blobs) -> None:
    service = BlobServiceClient.from_connection_string(blobs.container.storage_options["connection_string"])
    marker = service.get_blob_client(blobs.container.name, "landing/k=1")
    marker.upload_blob(b"", metadata={"hdi_isfolder": "true"})
    lister = open_listers([f"{blobs.container.url}/landing"], blobs.container.storage_options)
    assert list(lister.files(recursive=False)) == []
    entry = lister.entry(f"{blobs.container.url}/landing/k=1", recursive=False)
    assert entry is not None
    assert entry[1]() is None


def test_a_message_whose_receipt_changes_stays_hidden_and_is_deleted_with_the_newest_receipt(
    blobs: Blobs,
) -> None:
    blobs.send("landing/a")
    [message] = blobs.queue.receive(count=10, wait_s=0, hidden_s=300)
    changed = blobs.queue.extend([message.receipt], 300)
    assert set(changed) == {message.receipt}
    blobs.queue.delete([message.receipt])
    assert blobs.left == 1, "the receipt is an old one"
    assert blobs.queue.extend(["unknown receipt"], 300) == {}
    blobs.queue.delete([*changed.values(), "unknown receipt"])
    assert blobs.left == 0


def test_a_missing_queue_is_an_error_with_a_remedy(blobs: Blobs) -> None:
    queue = AzureQueue(f"{blobs.url}-gone", blobs.queue.options)
    with pytest.raises(DiscoveryError, match="subscription of Event Grid") as error:
        queue.receive(count=1, wait_s=0, hidden_s=30)
    assert blobs.container.storage_options["connection_string"].split("AccountKey=")[1][:20] not in str(
        error.value
    )
