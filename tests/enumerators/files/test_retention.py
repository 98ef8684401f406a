"""cleanSource.retentionDuration: files are cleaned a given time after they were read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flip27_source import savepoints
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.errors import OptionError
from flip27_source.file_systems.file_ids import FileSplitId
from flip27_source.snapshots.store import MemoryStore
from tests.driver.batches import InlineBatches
from tests.edits.edited import Edited, files
from tests.toy_sources import MIB, EchoReader

from .file_sources import write

DAY_MS = 86_400_000
RETENTION = "cleanSource.retentionDuration"


class Landing(InlineBatches):
    """A landing folder, and a query that cleans it after ten days."""

    def __init__(self, folder: Path, clean: str = "delete", stay: str = "10 days", **options: str) -> None:
        self.folder = folder / "landing"
        self.archive = folder / "archive"
        self.folder.mkdir(exist_ok=True)
        given = {"path": str(self.folder), "cleanSource": clean, RETENTION: stay, **options}
        if clean == "archive":
            given["sourceArchiveDir"] = str(self.archive)
        super().__init__(FilesEnumerator, EchoReader, given, store=MemoryStore())

    def arrive(self, name: str, text: str = "data", modified_s: int = 1_700_000_000) -> None:
        path = self.folder / name
        path.write_text(text)
        os.utime(path, (modified_s, modified_s))

    def read(self, *names: str) -> None:
        """Let these files arrive, read them in a batch, and let Spark commit it."""
        for name in names:
            self.arrive(name)
        rows = self.batch() or []
        assert [Path(FileSplitId.parse(row).path).name for row in rows] == list(names)
        self.idle()

    @property
    def left(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    @property
    def archived(self) -> list[str]:
        return sorted(path.name for path in self.archive.rglob("*") if path.is_file())


def test_a_file_is_deleted_after_the_retention_time(tmp_path: Path) -> None:
    landing = Landing(tmp_path)
    landing.read("a")
    landing.now_ms += 4 * DAY_MS
    landing.read("b")
    landing.idle(6 * DAY_MS - 1)
    assert landing.left == ["a", "b"]
    landing.idle(1)
    assert landing.left == ["b"]
    landing.idle(4 * DAY_MS)
    assert landing.left == []


def test_a_file_is_archived_after_the_retention_time(tmp_path: Path) -> None:
    landing = Landing(tmp_path, "archive")
    landing.read("a")
    assert (landing.left, landing.archived) == (["a"], [])
    landing.idle(10 * DAY_MS)
    assert (landing.left, landing.archived) == ([], ["a"])


def test_without_the_option_a_file_is_cleaned_at_once(tmp_path: Path) -> None:
    landing = Landing(tmp_path, stay="0s")
    landing.read("a")
    assert landing.left == []


def test_a_waiting_file_is_not_read_again_after_a_restart_and_is_deleted_when_due(tmp_path: Path) -> None:
    landing = Landing(tmp_path)
    landing.read("a")
    landing.read("b")
    for _ in range(10):
        landing.restart()
        landing.idle(DAY_MS)
    assert landing.left == ["b"]


def test_a_file_that_is_rewritten_while_it_waits_is_not_deleted(tmp_path: Path) -> None:
    """It contains rows that were not read."""
    landing = Landing(tmp_path)
    landing.read("a", "b")
    landing.arrive("a", "other", modified_s=1_700_000_001)
    landing.idle(10 * DAY_MS)
    assert landing.left == ["a"]


def test_a_new_version_waits_for_the_full_retention_time_after_it_was_read(tmp_path: Path) -> None:
    landing = Landing(tmp_path, allowOverwrites="true")
    landing.read("a")
    landing.now_ms += 9 * DAY_MS
    landing.arrive("a", "newer", modified_s=1_700_000_001)
    (row,) = landing.batch() or []
    assert row.endswith("a@1700000001000000-5")
    landing.idle(DAY_MS)
    assert landing.left == ["a"]
    landing.idle(10 * DAY_MS)
    assert landing.left == []


def test_the_options_at_the_end_of_the_retention_time_decide_whether_a_file_is_deleted_or_archived(
    tmp_path: Path,
) -> None:
    landing = Landing(tmp_path)
    landing.read("a")
    landing.read("b")
    landing.restart_with({"cleanSource": "archive", "sourceArchiveDir": str(landing.archive)})
    landing.idle(10 * DAY_MS)
    assert (landing.left, landing.archived) == (["b"], ["a"])


def test_waiting_files_stay_while_cleaning_is_off_and_are_cleaned_once_it_is_on_again(tmp_path: Path) -> None:
    landing = Landing(tmp_path)
    landing.read("a")
    landing.read("b")
    landing.restart_with({"cleanSource": "off"})
    landing.read("c")
    landing.idle(100 * DAY_MS)
    landing.read("d")
    landing.restart_with({"cleanSource": "delete"})
    landing.idle()
    assert landing.left == ["b", "c", "d"]


def test_a_shorter_or_removed_retention_time_applies_to_waiting_files(tmp_path: Path) -> None:
    landing = Landing(tmp_path)
    landing.read("a")
    landing.now_ms += DAY_MS
    landing.read("b")
    landing.read("c")
    landing.now_ms += DAY_MS
    landing.restart_with({RETENTION: "36 hours"})
    landing.idle()
    assert landing.left == ["b", "c"]
    landing.restart_with({RETENTION: None})
    landing.idle()
    assert landing.left == []


def waiting(folder: Path, names: str, **options: str) -> Edited:
    """Return a query that reads two of these files in each batch, and deletes them after ten days."""
    return files(folder, names, **{"cleanSource": "delete", RETENTION: "10 days", **options})


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "in").iterdir())


def later(source: Edited, days: int) -> None:
    source.engine.now_ms += days * DAY_MS
    assert source.batches() == []


def test_a_file_that_is_replayed_while_it_waits_waits_for_the_full_time_again(tmp_path: Path) -> None:
    source = waiting(tmp_path, "abcd")
    source.batches()
    source.engine.now_ms += 9 * DAY_MS
    source.ask("replay", glob="*/b")
    assert source.batches() == [["b"]]
    (edit,) = source.history()
    assert edit["dropped_actions"] == 1
    later(source, days=1)
    assert left(tmp_path) == ["b"]
    later(source, days=9)
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("forgotten", "name"),
    [("a", "a"), ("a@old", "a@old"), ("a#0-5", "a#0-5"), ("a@#0-", "a"), ("gone/a", "a")],
)
def test_a_file_that_is_forgotten_while_it_waits_is_found_again(
    tmp_path: Path, forgotten: str, name: str
) -> None:
    """The file of this path, also if the path looks like the id of another split."""
    for other in ("a@old", "a#0-5"):
        write(tmp_path / "in", other, data=other.encode(), modified_s=100)
    source = waiting(tmp_path, "ab", fileNameOnly=str("/" in forgotten))
    source.batches()
    source.engine.now_ms += 9 * DAY_MS
    source.ask("forget", splits=[str(tmp_path / "in" / forgotten)])
    assert source.batches() == [[name]]
    later(source, days=1)
    assert left(tmp_path) == [name]


def test_after_a_rewind_files_that_are_not_read_again_keep_their_due_time(tmp_path: Path) -> None:
    source = waiting(tmp_path, "abcdef")
    source.batches()
    source.engine.now_ms += 9 * DAY_MS
    source.ask("rewind", to_checkpoint=1)
    assert source.batches() == [["c", "d"], ["e", "f"]]
    later(source, days=1)
    assert left(tmp_path) == ["c", "d", "e", "f"]


def test_a_fork_cleans_only_files_that_it_has_read_itself(tmp_path: Path) -> None:
    parent = waiting(tmp_path, "abcdef")
    parent.batches()
    made = savepoints.create(state=parent.state, to=str(tmp_path / "saved"), copy=True)
    fork = Edited(tmp_path / "fork", {**parent.engine.given.options, "savepoint": made.directory})
    assert fork.batches() == [["e", "f"]]
    later(fork, days=10)
    assert left(tmp_path) == ["a", "b", "c", "d"]
    later(parent, days=10)
    assert left(tmp_path) == []


@pytest.mark.parametrize("is_fork", [False, True], ids=["rewind", "fork"])
def test_a_file_of_which_a_range_was_read_before_a_rewind_or_a_fork_is_cleaned(
    tmp_path: Path, is_fork: bool
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "large").write_bytes((b"x" * 63 + b"\n") * (3 * MIB // 64))
    limits = {"maxPartitionBytes": "1m", "maxBytesPerTrigger": "1m", "cleanSource": "delete"}
    options = {"enumerator": "files", "reader": "text", "path": str(tmp_path / "in"), **limits}
    source = Edited(tmp_path, options)
    assert source.batch()
    assert source.batch()
    if is_fork:
        made = savepoints.create(state=source.state, to=str(tmp_path / "saved"), copy=True)
        source = Edited(tmp_path / "fork", {**options, "savepoint": made.directory})
    else:
        source.ask("rewind", to_checkpoint=1)
    assert source.batches()
    source.engine.restart()
    assert source.batches() == []
    source.engine.stop()
    assert left(tmp_path) == []


@pytest.mark.parametrize("text", ["ten days", "-1 day", ""])
def test_an_invalid_retention_time_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(OptionError, match=r"cleanSource\.retentionDuration"):
        Landing(tmp_path, stay=text)
