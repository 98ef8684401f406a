"""State that is damaged, too new, too large or of another source is refused without any loss of data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flip27_source.errors import Flip27Error
from flip27_source.testing import MicroBatchEngine

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
    newer = log[0].replace('"format": 1, "id"', '"format": 5, "id"')
    assert newer != log[0]
    log[:] = [newer] * len(log)
    message = query.refusal(stateLocation=None)
    assert "has format 5; this library reads 1 to 4" in message
    assert "install the version of flip27-source that wrote the " in message


def test_starting_another_enumerator_on_the_same_checkpoint_is_refused(query: Query) -> None:
    query.land("a.txt", "1")
    query.run()
    message = query.refusal(enumerator="tests.spark.authors:CrashingFiles")
    assert "enumerator: was 'files', is 'tests.spark.authors:CrashingFiles'" in message


def test_the_error_for_state_that_outgrows_the_offset_log_names_the_option_to_set(query: Query) -> None:
    for number in range(20):
        query.land(f"{number}.txt", "1")
    message = query.refusal(stateLocation=None, inlineStateLimit="1k")
    assert 'set .option("stateLocation"' in message
    assert query.run() == ["1"] * 20
