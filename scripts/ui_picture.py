"""Writes docs/ui.png: the first screen of ``flip27 ui`` on three sources, one of which has failed.

python -m scripts.ui_picture     takes seconds, and on first use the time to unpack Chromium
"""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
import tempfile
import time
from pathlib import Path

from flip27_source.errors import Flip27Error
from tests.ui.chromium import browser
from tests.ui.queries import DiskQuery
from tests.ui.served import pages_of, served

PICTURE = Path(__file__).parents[1] / "docs" / "ui.png"
BATCHES, PAUSE_S = 8, 3


def query(root: Path, uid: str, files: int, broken: int = 0) -> DiskQuery:
    """A query that has run eight batches until now; ``broken``: how many of its files cannot be read."""
    made = DiskQuery.new(root / uid, uid=uid, maxFilesPerTrigger="12")
    made.engine.now_ms = round(1000 * (time.time() - BATCHES * PAUSE_S))
    made.land(*(f"{number:04}.parquet" for number in range(files)), rows=2_500)
    made.land(*(f"torn-{number}.parquet" for number in range(broken)), rows=None)
    for _ in range(BATCHES):
        made.batch(PAUSE_S)
    return made


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        clicks, payments = query(root, "clicks", 140), query(root, "payments", 10)
        orders = query(root, "orders", 24, broken=2)
        shutil.rmtree(root / "payments" / "landing")
        with contextlib.suppress(Flip27Error):
            payments.batch(0)
        payments.engine.stop()
        pages = pages_of(
            [made.checkpoint for made in (clicks, payments, orders)], lambda t: t.replace(folder, "")
        )
        with browser() as found, served(pages, now=lambda: dt.datetime.now(dt.UTC)) as site:
            page = found.new_context(viewport={"width": 1000, "height": 600}).new_page()
            page.goto(site.url)
            page.screenshot(path=str(PICTURE), full_page=True)
        clicks.engine.stop()
        orders.engine.stop()


if __name__ == "__main__":
    main()
