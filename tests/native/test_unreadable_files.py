"""What a batch of native reads stores about files that cannot be read."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.native.options import NativeOptions
from flip27_source.native.unreadable_files import UnreadableFiles
from flip27_source.readers.files.input import CorruptFileError
from flip27_source.schemas.column_comments import SourceOfSplits

SECRET = "hunter-2/+dragon"


@pytest.mark.parametrize("before", [0, 1960, 1990])
def test_errors_of_files_are_stored_and_logged_without_secrets_of_the_store(
    before: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lineage = tmp_path / f"files-{'0' * 16}"
    for name in ("checkpoints", "reports"):
        (lineage / name).mkdir(parents=True)
    source = SourceOfSplits(on_error="quarantine", max_quarantined=9, state_location=str(tmp_path))
    options = NativeOptions.parse({"storage.secret": SECRET}).own
    name = f"{lineage.name}/3-{'a' * 32}"
    files = UnreadableFiles(source, name, options)
    assert files.is_possible
    caplog.set_level(logging.WARNING)
    split = FileSplit(path="/landing/a", length=1, modified_us=1)
    files.give_up([(split, CorruptFileError("x" * before + SECRET, remedy="check it"))])
    assert files.remaining([split]) == []
    texts = [caplog.text, *(path.read_text() for path in tmp_path.rglob("*") if path.is_file())]
    assert len(texts) > 1
    for length in range(6, len(SECRET) + 1):
        assert not [text for text in texts if SECRET[:length] in text]
