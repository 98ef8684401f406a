"""What does not answer holds no page, and is not asked again meanwhile."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode

import pyarrow as pa
import pytest

from flip27_source.discovery import DiscoveringEnumerator, Discovery
from flip27_source.testing import MicroBatchEngine
from tests.deadline import until
from tests.edits.edited import files
from tests.toy_sources import EchoReader, Item
from tests.ui.editing import Editor
from tests.ui.served import pages_of, served
from tests.ui.test_pages import silent_store, source_path, text_of

VALUES = pa.schema([("value", pa.string())])


class Waits(DiscoveringEnumerator[Item]):
    """Finds nothing, and waits in every further discovery until a test ends it."""

    is_asked: ClassVar[threading.Semaphore]
    may_end: ClassVar[threading.Event]
    position_type: ClassVar[Any] = int

    def discover(self, position: int | None) -> Discovery[Item, int]:
        if position is not None:
            self.is_asked.release()
            assert self.may_end.wait(60)
        return Discovery([Item(split_id="a")] if position is None else [], 1)


def test_a_source_that_answers_slowly_is_asked_once_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flip27_source.cli.ui.sources.ASKED_EVERY_S", 0.0)
    Waits.is_asked, Waits.may_end = threading.Semaphore(0), threading.Event()
    names = {"enumerator": f"{__name__}:Waits", "reader": f"{EchoReader.__module__}:EchoReader"}
    engine = MicroBatchEngine({**names, "stateLocation": str(tmp_path)}, schema=VALUES)
    engine.run_batch()
    engine.stop()
    pages = pages_of([tmp_path], looks_with={})
    try:
        with served(pages) as site:
            path = source_path(site)
            ask = f"{path}/ask?token={pages.ask_token}"
            assert site.get(ask).status == 303
            assert Waits.is_asked.acquire(timeout=60)
            for _ in range(3):
                assert site.get(ask).status == 303
                assert not Waits.is_asked.acquire(timeout=0.3)
            Waits.may_end.set()
            until(
                lambda: "0 splits that the state does not have" in text_of(site.get(f"{path}/progress").text)
            )
            # Now it is asked again.
            until(lambda: site.get(ask).status == 303 and Waits.is_asked.acquire(timeout=0.1))
    finally:
        Waits.may_end.set()


def test_a_directory_of_savepoints_that_does_not_answer_holds_no_page(tmp_path: Path) -> None:
    source = files(tmp_path, "ab")
    source.batches()
    with (
        served(pages_of([Path(source.state)]), allow_edits=True) as site,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        page = Editor(site)
        at = f"{page.path}/savepoints?to=http://127.0.0.1:{silent.getsockname()[1]}/saved"
        for _ in range(2):
            answer = site.get(at)
            assert answer.status == 200
            assert "/saved has not answered yet" in text_of(answer.text)
            assert site.get(f"{page.path}/batches").status == 200
        silent.close()
        until(lambda: "has not answered yet" not in text_of(site.get(at).text))
    source.engine.stop()


WAITS = """
import sys
from flip27_source.cli.main import main
from flip27_source.cli.ui import sources

sources.ANSWER_S = 1000.0
sources.Sources.look = lambda *_, **__: None  # that at the start would wait, too
sys.exit(main())
"""


def test_a_page_that_waits_for_a_store_is_not_waited_for_when_the_user_interrupts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        words = ["ui", "--state", "s3://silent/state", "--port", "0", "--storage", "key=a"]
        words += ["--storage", f"endpoint_url=http://127.0.0.1:{silent.getsockname()[1]}"]
        command = [sys.executable, "-c", WAITS, *words, "--storage", "secret=b"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ui:
            try:
                assert ui.stdout is not None
                port = int(ui.stdout.readline().partition("/  ")[0].rpartition(":")[2])
                with socket.create_connection(("127.0.0.1", port)) as browser:
                    browser.sendall(b"GET /s/0/a/batches HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port)
                    silent.accept()
                    ui.send_signal(signal.SIGINT)
                    _, said = ui.communicate(timeout=60)
            finally:
                ui.kill()
    assert ui.returncode == 0
    assert "Traceback" not in said


def test_many_forms_for_a_store_that_does_not_answer_hold_no_other_source(tmp_path: Path) -> None:
    source = files(tmp_path, "ab")
    source.batches()
    with (
        silent_store() as silent,
        served(pages_of([Path(source.state), silent]), allow_edits=True) as site,
        ExitStack() as opened,
    ):
        page = Editor(site)
        body = urlencode({"form": page.token, "operation": "skip", "which": "all", "why": "a test"})
        for _ in range(60):
            sender = opened.enter_context(closing(http.client.HTTPConnection("127.0.0.1", site.port)))
            sender.request("POST", "/s/1/files-0000000000000000/dry-run", body, {"Origin": site.url})
        assert site.get(f"{page.path}/batches").status == 200
        assert page.dry_run("replay", which="all").word == "replay 2"
    source.engine.stop()
