"""State that is damaged, forged, too new, too large or of another source is refused without any loss of data.

State that is cut off or altered is tested in tests/snapshots/test_documents.py and test_segment_files.py.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flip27_source import savepoints
from flip27_source.coordination.batch_limits import Limits
from flip27_source.errors import Flip27Error, StateError
from flip27_source.savepoints.format import open_savepoint_at
from flip27_source.segment import content_digest
from flip27_source.testing import MicroBatchEngine
from tests.driver.batches import Batches
from tests.savepoints.test_savepoints import on_disk
from tests.toy_sources import FEEDS, EchoReader, Feed, items

Engine = Callable[..., MicroBatchEngine]


class Query:
    """A query on a folder of text files, which can be started again with other options."""

    def __init__(self, folder: Path, new_engine: Engine) -> None:
        self.landing = folder / "landing"
        self.landing.mkdir()
        self.state = folder / "state"
        self._new_engine = new_engine
        self.engine: MicroBatchEngine | None = None

    def land(self, name: str, line: str) -> None:
        (self.landing / name).write_text(f"{line}\n")

    def run(self, **options: Any) -> list[str]:
        """Start the query on its checkpoint, read all files, and return all lines in the sink."""
        given = {
            "enumerator": "files", "reader": "text", "path": str(self.landing), "discoveryRetries": "0",
            "stateLocation": str(self.state), **options,
        }  # fmt: skip
        before = self.engine
        options = {name: value for name, value in given.items() if value is not None}
        engine = self._new_engine(options, inline_state=given["stateLocation"] is None)
        if before is not None:
            before.stop()
            engine.logs, engine.sink = before.logs, before.sink
            engine.restart()
        self.engine = engine
        engine.process_all_available()
        return sorted(row[0] for row in engine.rows)

    def refusal(self, **options: Any) -> str:
        with pytest.raises(Flip27Error) as caught:
            self.run(**options)
        return str(caught.value)

    @property
    def last_offset(self) -> dict[str, Any]:
        assert self.engine is not None
        found: dict[str, Any] = json.loads(self.engine.logs.offsets[-1])
        return found


@pytest.fixture
def query(tmp_path: Path, flip27_engine: Engine) -> Query:
    return Query(tmp_path, flip27_engine)


def test_damaged_state_is_refused_and_nothing_is_lost_once_it_is_repaired(query: Query) -> None:
    expected = [f"{number:03d}" for number in range(300)]
    for line in expected:
        query.land(f"{line}.txt", line)
    assert query.run(maxFilesPerTrigger="100") == expected
    document = query.state / query.last_offset["state"]["file"]
    segment = next(document.parents[1].glob("segments/*.seen.bin"))
    query.land("new.txt", "new")

    whole, packed = document.read_bytes(), segment.read_bytes()
    document.write_bytes(whole[:-20])
    assert "does not match its digest" in query.refusal()
    document.write_bytes(whole.replace(b'"kind":"checkpoint"', b'"kind":"checkpoinT"'))
    assert "does not match its digest" in query.refusal()
    document.unlink()
    assert "is missing from the state location" in query.refusal()
    document.write_bytes(whole)

    segment.write_bytes(packed[: len(packed) // 2])
    assert f"segment {segment.name} cannot be unpacked" in query.refusal()
    segment.unlink()
    assert f"{segment.name} is missing from the state location" in query.refusal()
    segment.write_bytes(packed)

    assert query.run() == [*expected, "new"]


def test_a_document_of_a_newer_format_is_refused(query: Query) -> None:
    query.land("a.txt", "1")
    query.run(stateLocation=None)
    assert query.engine is not None
    log = query.engine.logs.offsets
    newer = log[0].replace('"format": 1, "id"', '"format": 6, "id"')
    assert newer != log[0]
    log[:] = [newer] * len(log)
    message = query.refusal(stateLocation=None)
    assert "has format 6; this library reads 1 to 5" in message
    assert "install the version of flip27-source that wrote the " in message


def test_starting_another_enumerator_on_the_same_checkpoint_is_refused(query: Query) -> None:
    query.land("a.txt", "1")
    query.run()
    message = query.refusal(enumerator="tests.spark.authors:CrashingFiles")
    assert "enumerator: was 'files', is 'tests.spark.authors:CrashingFiles'" in message


def test_the_error_for_state_that_outgrows_the_offset_log_names_the_option_to_set(query: Query) -> None:
    for number in range(20):
        query.land(f"{number}.txt", "1")
    assert 'set .option("stateLocation"' in query.refusal(stateLocation=None, inlineStateLimit="1k")
    assert query.run() == ["1"] * 20


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A savepoint of a feed that has assigned two of its splits."""
    FEEDS["hostile"] = items("a", "b", "c")
    batches = forged_query(tmp_path / "state")
    batches.batch(Limits(files=2))
    batches.trigger()
    return Path(savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved")).directory)


def forged_query(state: Path, **options: str) -> Batches:
    return on_disk(Feed, EchoReader, state, feed="hostile", **options)


def forged(saved: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Change the savepoint's document as an attacker would who knows how digests are computed."""
    metadata = json.loads((saved / "_metadata").read_text())
    change(metadata)
    document = json.dumps(metadata["document"], separators=(",", ":"), ensure_ascii=False)
    metadata["name"] = f"{metadata['document'].get('id', 1)}-{content_digest(document.encode())}"
    readable = msgspec.json.format(
        msgspec.json.encode({**metadata, "document": msgspec.Raw(document.encode())})
    )
    target = saved.rename(saved.with_name(f"savepoint-{metadata['name']}"))
    (target / "_metadata").write_bytes(readable)
    return target


def go_on_from(savepoint: Path, tmp_path: Path) -> list[Any] | None:
    return forged_query(tmp_path / "fork", savepoint=str(savepoint)).batch()


def rename_segments(name: str) -> Callable[[dict[str, Any]], None]:
    def change(metadata: dict[str, Any]) -> None:
        document = metadata["document"]
        for item in document["plan"]:
            item["splits"] = name
        document["segments"] = {name: {"bytes": 7}}

    return change


def test_a_forged_savepoint_that_changes_nothing_is_accepted(saved: Path, tmp_path: Path) -> None:
    """The forgery itself is not noticed, so the other tests show refusals of the content."""
    assert go_on_from(forged(saved, lambda _: None), tmp_path) == ["c"]


@pytest.mark.parametrize(
    "name",
    [
        "../../secret.json",
        "/etc/passwd",
        "..",
        "",
        "0123456789abcdef0123456789abcdef.splits.json/../../../secret",
        "0123456789abcdef0123456789abcdef.splits.json\0.json",
        "0123456789abcdef0123456789abcdef.splits.pickle",
        "https://example.com/0123456789abcdef0123456789abcdef.splits.json",
    ],
)
def test_a_segment_outside_the_savepoint_is_refused_by_name(saved: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.json").write_text("[]")
    target = forged(saved, rename_segments(name))
    with pytest.raises(StateError, match="is not the name of a segment"):
        go_on_from(target, tmp_path)


@pytest.mark.parametrize("part", ["segments", "reports"])
def test_a_file_outside_the_savepoint_is_refused_by_name(saved: Path, part: str) -> None:
    target = forged(saved, lambda metadata: metadata[part].append("../../../secret.json"))
    with pytest.raises(StateError, match=r"secret\.json' is not the name of a"):
        open_savepoint_at(str(target), {}).files()


def test_names_of_classes_in_a_document_are_compared_and_never_imported(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil_module.py").write_text("raise SystemExit('it was imported')")
    monkeypatch.syspath_prepend(str(tmp_path))

    def change(metadata: dict[str, Any]) -> None:
        metadata["document"]["source"]["enumerator"] = "evil_module:Enumerator"
        metadata["document"]["source"]["reader"] = "evil_module:Reader"

    target = forged(saved, change)
    with pytest.raises(StateError, match="evil_module:Enumerator"):
        go_on_from(target, tmp_path)
    assert "evil_module" not in sys.modules


class RunsOnLoad:
    """Its pickle creates a file when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("it_was_run"),))


def test_a_pickle_is_refused_and_not_loaded(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (saved / "_metadata").write_bytes(pickle.dumps(RunsOnLoad()))
    with pytest.raises(StateError, match="cannot be read"):
        go_on_from(saved, tmp_path)
    assert not (tmp_path / "it_was_run").exists()


def set_field(*path: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(metadata: dict[str, Any]) -> None:
        at: Any = metadata["document"]
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value

    return change


DEEP: Any = []
for _ in range(900):
    DEEP = [DEEP]

WRONG = {
    "a document without a format": set_field("format", value=None),
    "the format as text": set_field("format", value="1"),
    "a future format": set_field("format", value=6),
    "a negative id": set_field("id", value=-1),
    "an id beyond 64 bits": set_field("id", value=10**40),
    "an id that is text": set_field("id", value="1; drop table"),
    "an unknown kind": set_field("kind", value="exec"),
    "a plan that is a number": set_field("plan", value=7),
    "a subtask that is an object": set_field("plan", value=[{"splits": [], "subtask": {}}]),
    "state of a future version": set_field("enumerator", "version", value=99),
    "state whose version is text": set_field("enumerator", "version", value="latest"),
    "state of another type": set_field("enumerator", "state", value={"__class__": "os.system"}),
    "deeply nested state": set_field("enumerator", "state", value=DEEP),
    "live splits of another type": set_field("ledger", "live", value=[{"split_id": 7}]),
    "segments that are a list": set_field("segments", value=["a"]),
    "a segment that is not base64": rename_segments("0123456789abcdef0123456789abcdef.splits.json"),
    "another source": set_field("source", "uid", value="somebody-elses"),
    "an empty source": set_field("source", value={}),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_invalid_document_is_refused_with_a_remedy(saved: Path, tmp_path: Path, what: str) -> None:
    target = forged(saved, WRONG[what])
    before = {file: file.read_bytes() for file in target.rglob("*") if file.is_file()}
    with pytest.raises(Flip27Error) as caught:
        go_on_from(target, tmp_path)
    assert caught.value.remedy
    assert {file: file.read_bytes() for file in target.rglob("*") if file.is_file()} == before
    assert list((tmp_path / "fork").rglob("checkpoints/*")) == []


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"null", b"[" * 100_000, b"\xff\xfe", b'{"format": 1}', b"MZ\x90"]
)
def test_metadata_that_is_not_a_document_is_refused_with_a_remedy(
    saved: Path, tmp_path: Path, content: bytes
) -> None:
    (saved / "_metadata").write_bytes(content)
    with pytest.raises(StateError) as caught:
        go_on_from(saved, tmp_path)
    assert caught.value.remedy
