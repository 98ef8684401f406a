"""pathRewrite: a query that starts from a savepoint after its files were moved reads each file once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flip27_source import savepoints
from flip27_source.coordination.batch_limits import Limits
from flip27_source.coordination.data_losses import DataLoss
from flip27_source.coordination.subtask_reports import SubtaskReport
from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.enumerators.http_api.enumerator import HttpEnumerator, HttpSplit, HttpState
from flip27_source.errors import OptionError, SplitReadError
from flip27_source.file_systems.moved_paths import before_moves, path_rewrite
from flip27_source.options import Options
from flip27_source.reader import ReadsRanges, SplitReader
from flip27_source.savepoints.moved_files import MovedFiles
from flip27_source.snapshots.store import LocalStore
from tests.driver.batches import Batches
from tests.enumerators.files.file_sources import rounds_on
from tests.s3_server import S3Bucket
from tests.savepoints.test_savepoints import on_disk
from tests.toy_sources import FEEDS, MIB, EchoReader, Feed, items

TWO = Limits(files=2)


class Names(SplitReader[FileSplit]):
    """Reads each existing text file as one row, its path; other files cannot be read."""

    def read(self, split: FileSplit) -> Iterator[tuple[str]]:
        try:
            Path(split.path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise SplitReadError(str(error)) from None
        yield (split.path,)


class Landing:
    """A query that reads the files of a folder in successive runs."""

    def __init__(self, state: Path, path: Path | str, reader: Any = Names, **options: str) -> None:
        given = {"path": str(path), "stateLocation": str(state), **options}
        bounded = Boundedness.BOUNDED
        store = LocalStore(str(state))
        self.batches = Batches(FilesEnumerator, reader, given, store=store, boundedness=bounded)

    def run(self, limits: Limits | None = None) -> list[str]:
        """Run one batch and restart; return the names of the files that it read, or their rows, sorted."""
        rows = self.batches.batch(limits) or []
        self.batches.restart()
        return sorted(str(row).rpartition("/")[2] for row in rows)

    def savepoint(self, to: Path) -> str:
        """Create a savepoint; its batch is the last but one, because the last is not known to be complete."""
        state = self.batches.source.options["stateLocation"]
        return savepoints.create(state=state, to=str(to)).directory


def write(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(f"{name}\n")


def read_some(root: Path, folder: Path, reader: Any = Names, **options: str) -> str:
    """Create a savepoint in which a and b are read, and c and d wait; the query has read these two, too."""
    write(folder, "a", "b", "c", "d")
    landing = Landing(root / "state", folder, reader, fileOrder="name", **options)
    assert landing.run(TWO) == ["a", "b"]
    assert landing.run(TWO) == ["c", "d"]
    return landing.savepoint(root / "saved")


def after_a_move(root: Path) -> tuple[Path, Path, str]:
    """The old and the new folder of a query whose files were moved, and its savepoint of ``read_some``."""
    old, new = root / "old", root / "new"
    saved = read_some(root, old)
    shutil.move(old, new)
    return old, new, saved


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"seenFiles": "nameCursor"},
        {"seenFiles": "modifiedCursor"},
        {"allowOverwrites": "true"},
        {"fileNameOnly": "true"},
        {"cleanSource": "delete"},
        {"onSplitError": "quarantine"},
    ],
    ids=str,
)
def test_after_the_folder_moved_every_file_is_read_once(tmp_path: Path, options: dict[str, str]) -> None:
    old, new = tmp_path / "old" / "in", tmp_path / "new" / "in"
    saved = read_some(tmp_path, old, **options)
    if "cleanSource" in options:
        write(old, "a", "b")
    shutil.move(tmp_path / "old", tmp_path / "new")
    fork = Landing(
        tmp_path / "fork", new, fileOrder="name", savepoint=saved, pathRewrite=f"{old}={new}", **options
    )
    assert fork.run() == ["c", "d"]
    write(new, "e")
    # Later starts find the moved files without the options of the first start.
    fork.batches.restart_with({"savepoint": None, "pathRewrite": None})
    assert fork.run() == ["e"]
    assert fork.run() == []


def test_the_option_seen_files_can_change_together_with_the_move(tmp_path: Path) -> None:
    old, new, saved = after_a_move(tmp_path)
    options = {"savepoint": saved, "pathRewrite": f"{old}={new}", "seenFiles": "modifiedCursor"}
    fork = Landing(tmp_path / "fork", new, **options)
    assert fork.run() == ["c", "d"]
    write(new, "e")
    assert fork.run() == ["e"]


def test_without_the_option_waiting_files_at_the_old_path_stop_the_query(tmp_path: Path) -> None:
    _, new, saved = after_a_move(tmp_path)
    fork = Landing(tmp_path / "fork", new, savepoint=saved)
    with pytest.raises(SplitReadError, match=r"No such file or directory: .*/old/c"):
        fork.run()


def test_waiting_ranges_are_read_with_another_parallelism_and_range_size_S89(tmp_path: Path) -> None:
    class Ranges(EchoReader, ReadsRanges):
        @classmethod
        def can_read_ranges(cls, path: str, options: Options) -> bool:
            return True

    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    (old / "large").write_bytes(bytes(4 * MIB))
    landing = Landing(tmp_path / "state", old, Ranges, parallelism="1", maxPartitionBytes="1m")
    assert landing.run(Limits(bytes=MIB)) == ["large#0-1048576"]
    assert landing.run(Limits(bytes=MIB)) == ["large#1048576-2097152"]
    saved = landing.savepoint(tmp_path / "saved")
    shutil.move(old, new)
    (new / "larger").write_bytes(bytes(4 * MIB))
    moved = {"savepoint": saved, "pathRewrite": f"{old}={new}", "maxPartitionBytes": "2m", "parallelism": "5"}
    fork = Landing(tmp_path / "fork", new, Ranges, **moved)
    read = fork.run()
    assert [name for name in read if name.startswith("large#")] == [
        "large#1048576-2097152",
        "large#2097152-3145728",
        "large#3145728-",
    ]
    assert [name for name in read if name.startswith("larger#")] == ["larger#0-2097152", "larger#2097152-"]
    assert fork.run() == []


def test_a_second_move_builds_on_the_first(tmp_path: Path) -> None:
    first, second, third = tmp_path / "first", tmp_path / "second", tmp_path / "third"
    saved = read_some(tmp_path, first)
    shutil.move(first, second)
    fork = Landing(tmp_path / "fork", second, savepoint=saved, pathRewrite=f"{first}={second}")
    assert fork.run() == ["c", "d"]
    write(second, "e")
    assert fork.run() == ["e"]
    saved = fork.savepoint(tmp_path / "saved-again")
    shutil.move(second, third)
    last = Landing(tmp_path / "last", third, savepoint=saved, pathRewrite=f"{second}={third}")
    write(third, "f")
    # The savepoint is of the batch that read c and d; e was found later.
    assert last.run() == ["e", "f"]


def test_a_new_file_at_the_old_path_of_a_moved_file_is_a_different_file(tmp_path: Path) -> None:
    old, new, saved = after_a_move(tmp_path)
    write(old, "a")
    both = f"{old},{new}"
    landing = Landing(tmp_path / "fork", new, Names, paths=both, savepoint=saved, pathRewrite=f"{old}={new}")
    assert landing.run() == ["a", "c", "d"]


def test_waiting_files_partition_columns_and_metadata_refer_to_the_new_place(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    saved = read_some(tmp_path, old / "day=1")
    shutil.move(old, new)
    fork = Landing(tmp_path / "fork", new, savepoint=saved, pathRewrite=f"{old}={new}")
    fork.batches.trigger()
    rows = [row for task in fork.batches.tasks() for row in fork.batches.attempt(task)]
    assert sorted(rows) == [f"{new}/day=1/c", f"{new}/day=1/d"]


def test_losses_are_reported_for_the_new_paths_of_their_files(tmp_path: Path) -> None:
    write(tmp_path / "old", "a")
    rounds = rounds_on(tmp_path / "old")
    assert rounds.names() == ["a"]
    assert rounds.restored is not None
    moved = MovedFiles(rounds.source, path_rewrite(f"{tmp_path}/old={tmp_path}/new"), rounds.restored)
    loss = DataLoss(checkpoint_id=1, split_id=f"{tmp_path}/old/a", what="gone")
    report: SubtaskReport[FileSplit] = SubtaskReport(checkpoint_id=1, subtask_id=0, losses=(loss,))
    assert [loss.split_id for loss in moved.report(report).losses] == [f"{tmp_path}/new/a"]


def test_quarantined_files_are_listed_by_their_new_paths(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    write(old, "good")
    (old / "bad").write_bytes(b"\xff")
    landing = Landing(tmp_path / "state", old, Names, onSplitError="quarantine", maxSplitAttempts="1")
    assert landing.run() == ["good"]
    write(old, "more")
    assert landing.run() == ["more"]
    saved = landing.savepoint(tmp_path / "saved")
    shutil.move(old, new)
    fork = Landing(
        tmp_path / "fork", new, Names, onSplitError="quarantine", savepoint=saved, pathRewrite=f"{old}={new}"
    )
    assert fork.run() == ["more"]
    assert [item.split.path for item in fork.batches.quarantined()] == [f"{new}/bad"]


def test_files_and_savepoint_can_move_from_local_disk_to_a_bucket(
    tmp_path: Path, s3_bucket: S3Bucket
) -> None:
    old, bucket = tmp_path / "old", s3_bucket
    saved = Path(read_some(tmp_path, old, reader=EchoReader))
    bucket.file_system.put(f"{old}/", f"{bucket.name}/in/", recursive=True)
    bucket.file_system.put(f"{saved}/", f"{bucket.name}/saved/{saved.name}/", recursive=True)
    shutil.rmtree(tmp_path / "saved")
    fork = Landing(
        tmp_path / "fork",
        f"s3://{bucket.name}/in",
        savepoint=f"s3://{bucket.name}/saved/{saved.name}",
        pathRewrite=f"{old}=s3a://{bucket.name}/in/",
        reader=EchoReader,
        **bucket.options,
    )
    assert fork.run() == ["c", "d"]
    assert fork.run() == []


def test_a_name_cursor_requires_the_whole_path_to_be_moved(tmp_path: Path) -> None:
    (tmp_path / "in" / "x").mkdir(parents=True)
    saved = read_some(tmp_path, tmp_path / "in" / "day=1", seenFiles="nameCursor")
    options = {"savepoint": saved, "seenFiles": "nameCursor"}
    shutil.move(tmp_path / "in" / "day=1", tmp_path / "in" / "day=0")
    rewrite = f'{{"{tmp_path}/in/day=1": "{tmp_path}/in/day=0"}}'
    fork = Landing(tmp_path / "fork", tmp_path / "in", pathRewrite=rewrite, **options)
    with pytest.raises(OptionError, match="moves only some files of the path"):
        fork.run()


def test_a_modification_time_cursor_cannot_move_to_an_object_store(tmp_path: Path) -> None:
    saved = read_some(tmp_path, tmp_path / "old", seenFiles="modifiedCursor")
    fork = Landing(
        tmp_path / "fork",
        tmp_path / "old",
        savepoint=saved,
        seenFiles="modifiedCursor",
        pathRewrite=f"{tmp_path}/old=s3://bucket/in",
    )
    with pytest.raises(OptionError, match="copies get new modification times"):
        fork.run()


def test_rewriting_paths_of_an_enumerator_without_paths_is_refused(tmp_path: Path) -> None:
    FEEDS["few"] = items("a", "b")
    batches = on_disk(Feed, EchoReader, tmp_path / "state", feed="few")
    batches.batch(Limits(files=1))
    batches.batch()
    saved = savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved")).directory
    fork = on_disk(Feed, EchoReader, tmp_path / "fork", feed="few", savepoint=saved, pathRewrite="/a=/b")
    with pytest.raises(OptionError, match=r"Feed cannot rewrite paths"):
        fork.batch()
    with pytest.raises(OptionError, match=r"pathRewrite is set, .* option savepoint is not set"):
        on_disk(Feed, EchoReader, tmp_path / "alone", feed="few", pathRewrite="/a=/b").batch()


def test_endpoints_of_an_api_that_moved_keep_their_positions() -> None:
    rewrite = path_rewrite("https://old.example/v1=https://new.example/api")
    split = HttpSplit(
        split_id="https://old.example/v1/orders", at="https://old.example/v1/orders?page=7", count=3
    )
    moved = HttpEnumerator.rewrite_split(split, rewrite)
    assert moved.split_id == "https://new.example/api/orders"
    assert moved.at == "https://new.example/api/orders?page=7"
    assert moved.count == 3
    state = HttpState(handed_out=(split.split_id,), returned=(split,))
    rewritten = HttpEnumerator.rewrite_state(state, rewrite, Options.parse({}, ()))
    assert rewritten == HttpState(handed_out=(moved.split_id,), returned=(moved,))


@pytest.mark.parametrize(
    ("rules", "path", "now"),
    [
        ("/old=/new", "/old/a", "/new/a"),
        ("/old/=/new/", "/old/a", "/new/a"),
        ("/old=/new", "/older/a", "/older/a"),
        ("/old=/new, /old/2025=/archive", "/old/2025/a", "/archive/a"),
        ("/old=/new, /old/2025=/archive", "/old/2026/a", "/new/2026/a"),
        ("s3a://old/in=s3://new/in", "s3://old/in/a", "s3://new/in/a"),
        ("file:///old=gs://new", "/old/a", "gs://new/a"),
        ("s3://key:secret@old/in=/new", "s3://old/in/a", "/new/a"),
        ('{"/old/day=1": "/new, really"}', "/old/day=1/a", "/new, really/a"),
        ("/=/new", "/a", "/new/a"),
        ("memory://old=memory://new", "memory:///old/a", "memory:///new/a"),
    ],
)
def test_the_rule_with_the_longest_prefix_of_whole_names_applies(rules: str, path: str, now: str) -> None:
    rewrite = path_rewrite(rules)
    assert rewrite.now(path) == now
    assert rewrite.before(now) == path


@pytest.mark.parametrize(
    "rules", ["", "/old", "/a=/b=/c", "=/new", "/a=/x,/b=/x", "/a=/x,/a=/y", "{", "{}", '{"/a": 1}']
)
def test_unclear_rules_are_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"expected|may be given once"):
        path_rewrite(rules)


def test_no_two_files_are_ever_confused() -> None:
    moves = [path_rewrite("/in=/mid,/in/x=/other"), path_rewrite("/mid=/in")]
    paths = [f"/{top}{below}" for top in ("in", "mid", "other", "in/x", "mid/x") for below in ("/a", "/x/a")]
    former = {before_moves(path, moves) for path in dict.fromkeys(paths)}
    assert len(former) == len(dict.fromkeys(paths))
