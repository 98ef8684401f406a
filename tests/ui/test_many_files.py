"""1,000,000 files in the browser: half of them in 50 batches, half of them wait."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from flip27_source.discovery import DiscoveringEnumerator, Discovery
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.reader import SplitReader
from flip27_source.testing import MicroBatchEngine
from tests.snapshots.spark_logs import log_batch, log_commit
from tests.ui.served import pages_of, served
from tests.ui.window import Window

BATCHES, OF_A_BATCH = 50, 10_000
FILES = 2 * BATCHES * OF_A_BATCH


class ManyFiles(DiscoveringEnumerator[FileSplit]):
    def discover(self, position: int | None) -> Discovery[FileSplit, int]:
        names = range(0 if position else FILES)
        return Discovery(
            [FileSplit(path=f"/landing/{n:07}.json", length=100, modified_us=n) for n in names], 1
        )


class NamesFiles(SplitReader[FileSplit]):
    def read(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        yield from ()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("many")
    engine = MicroBatchEngine(
        {"stateLocation": str(root / "flip27"), "maxFilesPerTrigger": str(OF_A_BATCH), "uid": "many",
         "taskReports": "always"},
        enumerator=ManyFiles, reader=NamesFiles, schema=pa.schema([("n", pa.int64())]),
    )  # fmt: skip
    for number in range(BATCHES):
        engine.now_ms += 10_000
        engine.run_batch()
        log_batch(root, number, json.loads(engine.logs.offsets[number]))
        log_commit(root, number)
    engine.stop()
    return root


@pytest.mark.slow  # the state takes two minutes
def test_a_million_files_are_looked_at_page_by_page(window: Window, checkpoint: Path) -> None:
    page = window.page
    with served(pages_of([checkpoint])) as site:
        page.goto(site.url)
        window.waits_for("500,000 splits")
        page.get_by_role("link", name="many-").click()
        window.waits_for("50 are retained")
        page.locator("td a[href*='/batch?']").first.click()
        window.waits_for("10,000 splits (10,000 files)")
        assert page.locator("td.name").count() == 100
        for name, status in (("0000000", "finished"), ("0499999", "finished"), ("0999999", "waiting")):
            page.get_by_role("link", name="Splits").click()
            page.get_by_label("Part of the name").fill(name)
            page.get_by_role("button", name="Search").click()
            page.locator("td.name").get_by_text(f"/landing/{name}.json").wait_for()
            assert page.locator("td.name").count() == 1
            assert page.locator(f"tr.{status}").count() == 1
        page.get_by_role("link", name="/landing/0999999.json").click()
        window.waits_for("/landing/0999999.json: waiting")
        page.get_by_role("link", name="Checkpoints").click()
        page.get_by_role("button", name="What changed").click()
        page.locator("#changes").wait_for()
        page.goto("about:blank")  # the server ends before the window
