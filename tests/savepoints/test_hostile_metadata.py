"""Savepoints and state with deeply nested or huge JSON or absurd numbers: each is an error that names it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from flip27_source import savepoints
from flip27_source.cli.main import main
from flip27_source.coordination.batch_limits import Limits
from flip27_source.errors import CorruptStateError, StateError
from flip27_source.segment import content_digest
from flip27_source.snapshots.documents import MOST_DOCUMENT_BYTES
from flip27_source.snapshots.segment_files import pack_segment, unpack_segment
from tests.driver.batches import Batches
from tests.savepoints.test_savepoints import with_bulk_state

ONE = Limits(files=1)


@pytest.fixture
def query(tmp_path: Path) -> Batches:
    return with_bulk_state(tmp_path / "state", "nested", 20)


@pytest.fixture
def saved(query: Batches, tmp_path: Path) -> Path:
    made = savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved"))
    return Path(made.directory)


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def _replace(key: str, text: str) -> Callable[[Path], None]:
    """Return a change that replaces the value of one key of the metadata by JSON text."""

    def change(metadata: Path) -> None:
        content = json.loads(metadata.read_text())
        metadata.write_text(json.dumps({**content, key: "@"}).replace('"@"', text))

    return change


def _document(key: str, text: str) -> Callable[[Path], None]:
    """Return the same change for a key of the document; it also updates the document's digest."""

    def change(metadata: Path) -> None:
        content = json.loads(metadata.read_text())
        document = json.dumps({**content["document"], key: "@"}, separators=(",", ":")).replace('"@"', text)
        name = f"{content['document']['id']}-{content_digest(document.encode())}"
        metadata.write_text(
            json.dumps({**content, "name": name, "document": "@"}).replace('"@"', document, 1)
        )

    return change


def _sparse(metadata: Path) -> None:
    os.truncate(metadata, 1 << 40)


HOSTILE: dict[str, Callable[[Path], None]] = {
    "only nested arrays": lambda metadata: metadata.write_text(nested(100_000)) and None,
    "arrays that are never closed": lambda metadata: metadata.write_text("[" * 1_000_000) and None,
    "a nested value": _replace("lineage", nested(100_000)),
    "a nested document": _replace("document", nested(100_000)),
    "a nested state in the document": _document("enumerator", nested(100_000)),
    "nested just below the limit of the stack": _replace("document", nested(940)),
    "created beyond the last year": _replace("created_ms", "1" + "0" * 30),
    "created before the first year": _replace("created_ms", "-1" + "0" * 30),
    "created at a time of 5,000 digits": _replace("created_ms", "1" + "0" * 5000),
    "a checkpoint beyond the last year": _document("timestamp", "1" + "0" * 30),
    "a batch number of 5,000 digits": _replace("query", '{"batch":1' + "0" * 5000 + ',"files":{}}'),
    "a terabyte": _sparse,
    "an infinite number": _replace("created_ms", "1e999999"),
    "a name of 100 digits": _replace("name", '"' + "9" * 100 + '"'),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_metadata_causes_a_clear_error_and_no_traceback(
    saved: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    HOSTILE[kind](saved / "_metadata")
    with pytest.raises(StateError):
        savepoints.describe(str(saved))
    (listed,) = savepoints.list_savepoints(str(saved.parent))
    assert (listed.status, bool(listed.problem)) == ("damaged", True)
    assert not savepoints.verify(str(saved)).is_whole
    assert main(["savepoint", "show", str(saved)]) == 1
    assert main(["savepoint", "verify", str(saved)]) == 1
    assert main(["savepoint", "list", str(saved.parent)]) == 0
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("depth", [100, 900, 990, 100_000])
def test_a_nested_document_in_the_state_location_is_called_damaged(query: Batches, depth: int) -> None:
    offset = query.committed
    query.restart()
    name = offset["state"]["file"].rpartition("/")[2]
    (file,) = Path(query.options["stateLocation"]).glob(f"*/checkpoints/{name}")
    document = file.read_text()
    file.write_text(document.replace('"format":1', f'"format":{nested(depth)}'))
    with pytest.raises(CorruptStateError):
        query.batch(ONE)


@pytest.mark.parametrize("command", [["state", "show"], ["state", "history"]])
def test_state_with_invalid_times_causes_a_clear_error(
    query: Batches, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    state = Path(query.options["stateLocation"])
    newest = max(state.glob("*/checkpoints/*"), key=lambda path: int(path.name.partition("-")[0]))
    content = json.loads(newest.read_text()) | {"timestamp": 10**30, "id": 9}
    data = json.dumps(content, separators=(",", ":"))
    newest.with_name(f"9-{content_digest(data.encode())}.json").write_text(data)
    assert main([*command, str(state)]) == 1
    assert "Traceback" not in capsys.readouterr().err


# Segments


def bomb(size: int) -> bytes:
    """Return a small segment file that unpacks to ``size`` zeros."""
    stream = pa.BufferOutputStream()
    with pa.CompressedOutputStream(stream, "zstd") as packed:
        for _ in range(size >> 20):
            packed.write(bytes(1 << 20))
    return size.to_bytes(8, "big") + stream.getvalue().to_pybytes()


def test_a_segment_is_not_unpacked_beyond_the_size_in_its_document(
    query: Batches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked: list[int] = []
    decompress = pa.decompress

    def counted(data: Any, size: int, **options: Any) -> Any:
        unpacked.append(size)
        return decompress(data, size, **options)

    monkeypatch.setattr(pa, "decompress", counted)
    query.restart()
    large = bomb(256 << 20)
    assert len(large) < 100_000
    for segment in (tmp_path / "state").glob("*/segments/*"):
        segment.write_bytes(large)
    with pytest.raises(CorruptStateError, match="its document 8192 bytes"):
        query.enumerator().marks.popitem()[1].data  # noqa: B018 - looking loads it
    assert [size for size in unpacked if size > 10_000] == []


def test_a_segment_larger_than_its_header_says_is_refused() -> None:
    lying = (100).to_bytes(8, "big") + bomb(1 << 20)[8:]
    with pytest.raises(CorruptStateError, match="cannot be unpacked"):
        unpack_segment("x", lying)
    with pytest.raises(CorruptStateError, match="cannot be unpacked"):
        unpack_segment("x", lying, 100)


def test_a_segment_of_the_size_in_its_document_is_unpacked() -> None:
    data = bytes(5_000_000)
    assert unpack_segment("x", pack_segment(data), len(data)) == data
    with pytest.raises(CorruptStateError, match="its document 4999999 bytes"):
        unpack_segment("x", pack_segment(data), 4_999_999)


def test_verify_reads_a_segment_of_any_size_in_little_memory(saved: Path) -> None:
    """An attacker made the savepoint: its document states the size of the segment."""
    size = 1 << 30
    (segment, *_) = sorted((saved / "segments").iterdir())
    segment.write_bytes(bomb(size))
    metadata = json.loads((saved / "_metadata").read_text())
    metadata["document"]["segments"][segment.name]["bytes"] = size
    document = json.dumps(metadata["document"], separators=(",", ":"))
    metadata["name"] = f"{metadata['document']['id']}-{content_digest(document.encode())}"
    whole = msgspec.json.encode({**metadata, "document": msgspec.Raw(document.encode())})
    (saved / "_metadata").write_bytes(whole)
    before = pa.total_allocated_bytes()
    pool = pa.default_memory_pool()
    verified = savepoints.verify(str(saved))
    (damaged,) = verified.damaged
    assert damaged.name == f"segments/{segment.name}"
    assert "does not match the digest in its name" in str(damaged.problem)
    assert (pool.max_memory() or 0) < size
    assert pa.total_allocated_bytes() <= before + (1 << 20)


def test_a_segment_file_that_is_longer_than_any_packed_form_is_not_read(
    query: Batches, tmp_path: Path
) -> None:
    query.restart()
    for segment in (tmp_path / "state").glob("*/segments/*"):
        os.truncate(segment, 1 << 40)
    with pytest.raises(CorruptStateError, match="has more than"):
        query.enumerator().marks.popitem()[1].data  # noqa: B018 - looking loads it


def test_a_document_too_large_to_be_read_again_is_not_written(query: Batches) -> None:
    assert MOST_DOCUMENT_BYTES == 512 * 1024 * 1024
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flip27_source.snapshots.checkpoint_files.MOST_DOCUMENT_BYTES", 100)
        with pytest.raises(StateError, match=r"has .* bytes, more than 100"):
            query.trigger(ONE)
    assert query.batch(ONE) is not None
