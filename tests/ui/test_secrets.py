"""Secrets that libraries, names and records quote are on no page, in no report and in no log."""

from __future__ import annotations

import datetime as dt
import html
from pathlib import Path

import pytest

from flip27_source.cli.ui.words import first_bytes
from flip27_source.file_systems.secrets_in_texts import Hidden
from flip27_source.state_tables.history import History
from tests.ui.editing import Editor
from tests.ui.queries import DiskQuery
from tests.ui.served import pages_of, served
from tests.ui.test_pages import GOLDEN, source_path

SECRET = "hunter-2/+dragon"
HIDE = Hidden({"storage.secret": SECRET}).in_text


def parts_of(secret: str) -> list[str]:
    """Beginnings that would tell something of it."""
    return [secret[:length] for length in range(6, len(secret) + 1)]


def test_the_first_bytes_of_a_record_have_no_secret_in_hex_and_as_text() -> None:
    (checkpoint,) = [at for at in GOLDEN if at.parts[-3:-1] == ("0.2.0", "kafka-quarantine")]
    plain = pages_of([checkpoint])
    plain.sources.look(dt.datetime.now(dt.UTC))
    key = plain.sources.found[0].key
    row, *_ = plain.quarantine(plain.sources.found[0], {})["rows"]
    secret = row["value"].decode()
    assert row["value"].hex(" ") in plain.page(key, "quarantine", {})
    hidden = pages_of([checkpoint], Hidden({"kafka.sasl.password": secret}).in_text)
    hidden.sources.look(dt.datetime.now(dt.UTC))
    text = hidden.page(key, "quarantine", {})
    assert row["value"].hex(" ") not in text
    assert secret not in html.unescape(text)


@pytest.mark.parametrize("before", [0, 240, 250, 256])
def test_first_bytes_do_not_end_within_a_secret(before: int) -> None:
    in_hex, text = first_bytes(b"x" * before + SECRET.encode(), HIDE)
    for part in parts_of(SECRET):
        assert part not in text
        assert part.encode().hex(" ") not in in_hex


def test_what_is_cut_off_in_a_form_does_not_end_within_a_secret(spoiled: DiskQuery) -> None:
    plain = pages_of([spoiled.checkpoint])
    plain.sources.look(dt.datetime.now(dt.UTC))
    error = plain.quarantine(plain.sources.found[0], {})["rows"][0]["error"]
    secret = error[135:170]
    hide = Hidden({"storage.secret": secret}).in_text
    with served(pages_of([spoiled.checkpoint], hide), allow_edits=True) as site:
        text = html.unescape(Editor(site).form("quarantine drop"))
    assert error[:40] in text
    assert not [part for part in parts_of(secret) if part in text]


def test_a_report_masks_the_error_of_a_part_that_cannot_be_made(tmp_path: Path) -> None:
    query = DiskQuery.new(tmp_path)
    for number in range(16):  # more than a look reads
        query.land(f"{number}.parquet")
        query.batch()
    query.engine.stop()
    (document, *_) = (query.checkpoint / "flip27").glob("*/checkpoints/3-*")
    document.write_bytes(document.read_bytes()[:-9])
    pages = pages_of([query.checkpoint], Hidden({"storage.secret": document.name}).in_text)
    pages.sources.look(dt.datetime.now(dt.UTC))
    assert len(pages.sources.found) == 1
    text = pages.report()
    assert "<p>batches: " in text
    assert document.name not in text


def test_an_unexpected_error_is_shown_and_logged_without_secrets(
    hostile: DiskQuery,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fails(*_: object) -> object:
        raise RuntimeError("x" * 1970 + SECRET)

    with served(pages_of([hostile.checkpoint], HIDE)) as site:
        at = f"{source_path(site)}/checkpoints"
        monkeypatch.setattr(History, "source", fails)
        answer = site.get(at)
    assert answer.status == 500
    assert "a bug of flip27: RuntimeError: xxx" in answer.text
    assert "in checkpoints" in caplog.text  # where it happened
    for text in (answer.text, caplog.text, *capfd.readouterr()):
        assert not [part for part in parts_of(SECRET) if part in text]
