"""Every kind of bad file under every policy (fail, ignore, quarantine); other files are read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.errors import OptionError, SplitReadError
from tests.driver.batches import Batches
from tests.enumerators.files.file_sources import files_query, write
from tests.readers.formats import COLUMNAR, READERS, write_ids
from tests.without_root import run_without_root

IDS = [f"id {number}" for number in range(1000)]
JSON = "".join(f'{{"id": "{text}"}}\n' for text in IDS).encode()


def nothing(_: Path) -> None:
    """Change nothing, because the file was already bad when it was found."""


def cut_off(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def truncated(name: str, path: Path) -> None:
    write_ids(name, path, IDS)
    cut_off(path)


def avro_of_latin1(path: Path) -> None:
    write_ids("avro", path, ["cafe"])
    path.write_bytes(path.read_bytes().replace(b"cafe", b"caf\xe9"))


def damaged_row_group(path: Path) -> None:
    """Write a file with a good footer and a good first row group, but a damaged second one."""
    pq.write_table(pa.table({"id": IDS}), path, row_group_size=500, use_dictionary=False, compression="zstd")
    content = bytearray(path.read_bytes())
    place = pq.read_metadata(path).row_group(1).column(0)
    middle = place.data_page_offset + place.total_compressed_size // 2
    content[middle : middle + 60] = bytes(60)
    path.write_bytes(content)


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"id": "more"}\n')


@dataclass(frozen=True, kw_only=True)
class Bad:
    """A bad file: how it is written, what happens to it after it was found, and the expected error."""

    write: Callable[[Path], object]
    then: Callable[[Path], object] = nothing
    said: str
    format: str = "json"
    ignored_by: str | None = "ignoreCorruptFiles"
    name: str = "bad"
    options: dict[str, str] = field(default_factory=dict)


BAD = {
    **{
        f"truncated {name}": Bad(write=partial(truncated, name), said="is truncated or damaged", format=name)
        for name in COLUMNAR
    },
    "parquet with a damaged row group": Bad(
        write=damaged_row_group, said="is truncated or damaged", format="parquet",
    ),
    "invalid UTF-8": Bad(
        write=avro_of_latin1, said="is truncated or damaged: block at byte", format="avro"
    ),
    "invalid UTF-8 where lines must be whole": Bad(
        write=lambda path: path.write_bytes(b'{"id": "1"}\n{"id": "\xe9"}\n'), options={"mode": "FAILFAST"},
        said=", byte 12: the record is malformed", ignored_by=None,
    ),
    "half-written gzip": Bad(
        write=lambda path: (path.write_bytes(gzip.compress(JSON)), cut_off(path)), name="bad.gz",
        said="is truncated or damaged: Compressed file ended before the end-of-stream marker was reached "
        "(within its first",
    ),
    "gzip without its end": Bad(
        write=lambda path: path.write_bytes(gzip.compress(JSON)[:-20]), name="bad.gz",
        said="is truncated or damaged",
    ),
    "a file that grew": Bad(
        write=lambda path: path.write_bytes(JSON), then=append, ignored_by=None,
        said=f"had {len(JSON)} bytes when it was discovered and has {len(JSON) + 15} now",
    ),
    "a file that shrank": Bad(
        write=lambda path: path.write_bytes(JSON), then=cut_off, ignored_by=None,
        said=f"had {len(JSON)} bytes when it was discovered and has {len(JSON) // 2} now",
    ),
    "a file that vanished": Bad(
        write=lambda path: path.write_bytes(JSON), then=Path.unlink, said="no longer exists",
        ignored_by="ignoreMissingFiles",
    ),
    "a line without end": Bad(
        write=lambda path: path.write_bytes(b'{"id": "1"}\n{"id": "' + b"x" * 1000),
        options={"maxLineBytes": "100"}, said=", byte 12: the line is longer than 100 bytes",
    ),
}  # fmt: skip

each = pytest.mark.parametrize("kind", BAD)


def query(folder: Path, bad: Bad, **options: str) -> tuple[Batches, Path]:
    """Plan a batch of a good file, the bad one and another good one."""
    path = folder / bad.name
    bad.write(path)
    for name in ("a", "z"):
        write_ids(bad.format, folder / name, [name])
    given = {"path": str(folder), "stateLocation": "memory://unused", "parallelism": "1"}
    given |= bad.options | options
    batches = Batches(FilesEnumerator, READERS[bad.format], given, boundedness=Boundedness.BOUNDED)
    batches.trigger()
    bad.then(path)
    return batches, path


def rows(batches: Batches) -> list[str]:
    (task,) = batches.tasks()
    return sorted(text for column in batches.attempt(task) for text in column.to_pylist())


def not_read(batches: Batches, folder: Path) -> dict[str, list[tuple[str, str]]]:
    """The paths and errors in the state after the batch, by kind."""
    batches.commit()
    [name] = [name for name, reader in READERS.items() if reader is batches.source.reader_type]
    write_ids(name, folder / "later", ["later"])
    batches.restart()
    batches.trigger()
    ledger = batches.snapshot().ledger
    return {
        name: [(item.split.path, item.error) for item in items]
        for name, items in (("ignored", ledger.ignored), ("quarantined", ledger.quarantined))
    }


@each
def test_by_default_a_bad_file_fails_the_query_with_its_path_and_position(tmp_path: Path, kind: str) -> None:
    batches, path = query(tmp_path, BAD[kind])
    with pytest.raises(SplitReadError) as caught:
        rows(batches)
    assert str(path) in str(caught.value)
    assert BAD[kind].said in str(caught.value)


@each
@pytest.mark.parametrize("policy", ["ignore", "quarantine"])
def test_a_bad_file_is_ignored_or_quarantined_with_all_of_its_rows_and_listed(
    tmp_path: Path, kind: str, policy: str
) -> None:
    batches, path = query(tmp_path, BAD[kind], onSplitError=policy)
    assert rows(batches) == ["a", "z"]
    found = not_read(batches, tmp_path)
    ((listed, error),) = found.pop("ignored" if policy == "ignore" else "quarantined")
    assert (listed, *found.values()) == (str(path), [])
    assert BAD[kind].said in error


@each
@pytest.mark.parametrize("option", ["ignoreCorruptFiles", "ignoreMissingFiles"])
def test_sparks_options_ignore_only_the_kind_of_file_that_they_name(
    tmp_path: Path, kind: str, option: str
) -> None:
    batches, path = query(tmp_path, BAD[kind], **{option: "true"})
    if BAD[kind].ignored_by != option:
        with pytest.raises(SplitReadError):
            rows(batches)
        return
    assert rows(batches) == ["a", "z"]
    assert [listed for listed, _ in not_read(batches, tmp_path)["ignored"]] == [str(path)]


@pytest.mark.parametrize("name", ["json", "parquet", "avro"])
def test_an_empty_file_is_not_bad_whatever_the_policy(tmp_path: Path, name: str) -> None:
    bad = Bad(write=Path.touch, said="", format=name)
    for number, policy in enumerate(("fail", "ignore", "quarantine")):
        folder = tmp_path / str(number)
        folder.mkdir()
        batches, _ = query(folder, bad, onSplitError=policy)
        assert rows(batches) == ["a", "z"]
        assert not_read(batches, folder) == {"ignored": [], "quarantined": []}


PROGRAM = """
import json, sys
from pathlib import Path
from flip27_source.errors import AccessError
from tests.readers.files import test_bad_file_policies as t
bad = t.Bad(write=lambda path: path.write_text("secret"), then=lambda path: path.chmod(0), said="")
for policy in ("fail", "ignore", "quarantine"):
    folder = Path(sys.argv[1]) / policy
    folder.mkdir()
    batches, path = t.query(folder, bad, onSplitError=policy)
    try:
        read = len(t.rows(batches))
    except AccessError as error:
        print(json.dumps([policy, str(error)]))
    else:
        print(json.dumps([policy, read, t.not_read(batches, folder)]))
"""


@pytest.mark.parametrize("policy", ["ignore", "quarantine"])
@pytest.mark.parametrize(
    "case", ["csv multiLine", "json multiLine", "text wholetext", "text lineSep", "text reader"]
)
def test_ranges_that_wait_while_an_option_begins_to_need_whole_files_stay_whatever_the_policy(
    tmp_path: Path, case: str, policy: str
) -> None:
    reader, changed = case.split()
    write(tmp_path, "in/a", data=b'{"id": 1}\n' * 200_000)
    options = {"reader": reader, "onSplitError": policy, "stateLocation": str(tmp_path / "state")}
    engine = files_query(tmp_path / "in", maxPartitionBytes="1m", maxBytesPerTrigger="1k", **options)
    engine.run_batch()
    assert len(engine.rows) == 100_000
    engine.restart(options={changed: {"lineSep": "x", "reader": "binary"}.get(changed, "true")})
    told = f"(?s)cannot be read from byte 1000000 to None.*{changed}.* until the waiting ranges are read"
    with pytest.raises(OptionError, match=told):
        engine.run_batch()
    engine.restart(options={changed: reader if changed == "reader" else None})
    engine.process_all_available()
    assert len(engine.rows) == 200_000


def test_a_file_whose_permission_was_revoked_fails_its_task_whatever_the_policy(tmp_path: Path) -> None:
    done = run_without_root(PROGRAM, tmp_path)
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert [policy for policy, *_ in outcomes] == ["fail", "ignore", "quarantine"]
    for policy, said in outcomes:
        assert str(tmp_path / policy / "bad") in said
        assert "cannot be read: permission is denied" in said
        assert "give the user or role that runs the executors" in said
