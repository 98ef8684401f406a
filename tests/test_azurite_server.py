"""The emulator of Azure Storage does what other tests expect of it."""

from __future__ import annotations

import urllib.error
import urllib.request

import psutil
import pytest

from tests.azurite_server import AzureContainer, Azurite, azurite_server


def test_blobs_are_kept_by_container(azurite: Azurite) -> None:
    one, other = azurite.container(), azurite.container()
    one.file_system.pipe_file(f"{one.name}/landing/a", b"1")
    assert one.file_system.cat_file(f"{one.name}/landing/a") == b"1"
    assert other.file_system.find(other.name) == []


def test_the_second_of_two_creates_is_refused_by_the_server(azure_container: AzureContainer) -> None:
    name = f"{azure_container.name}/a"
    azure_container.file_system.pipe_file(name, b"first", mode="create")
    with pytest.raises(FileExistsError):
        azure_container.file_system.pipe_file(name, b"second", mode="create")
    assert azure_container.file_system.cat_file(name) == b"first"


def test_the_queue_service_answers_at_its_own_port(azurite: Azurite) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{azurite.queue_url}?comp=list")
    assert refused.value.code == 403
    assert "Azurite-Queue" in refused.value.headers["Server"]
    assert azurite.queue_url in azurite.connection_string


def test_the_server_listens_on_loopback_only_and_ends_with_its_block() -> None:
    with azurite_server() as server:
        assert server.process is not None
        process = psutil.Process(server.process.pid)
        addresses = [found.laddr.ip for found in process.net_connections() if found.status == "LISTEN"]
        assert addresses == ["127.0.0.1"] * 3
    assert not process.is_running()
    assert not server.log.exists()
