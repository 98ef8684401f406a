"""What an option declares about another value at a restart is what happens to the pending batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from flip27_source.errors import IncompatibleStateError
from flip27_source.options import Change
from flip27_source.source import declared_options
from flip27_source.testing import MicroBatchEngine

PENDING, NEXT = ["a", "a", "b", "b"], ["c", "c"]


@pytest.mark.parametrize(
    ("name", "value", "change", "pending", "following"),
    [
        ("maxFilesPerTrigger", "1", Change.NEXT_BATCH, PENDING, NEXT),
        ("pathGlobFilter", "d", Change.NEXT_BATCH, PENDING, ["c", "c"]),
        ("parallelism", "1", Change.NEXT_BATCH, PENDING, NEXT),
        ("taskReports", "always", Change.NEXT_BATCH, PENDING, NEXT),
        ("header", "true", Change.PENDING_BATCH, ["a", "b"], ["c"]),
        ("reader", "binary", Change.PENDING_BATCH, ["a", "b"], ["c"]),
        ("path", "elsewhere", Change.PENDING_BATCH, PENDING, NEXT),
        ("savepoint", "/nowhere", Change.IGNORED, PENDING, NEXT),
        ("savepointClaim", "claim", Change.IGNORED, PENDING, NEXT),
        ("pathRewrite", "/a=/b", Change.IGNORED, PENDING, NEXT),
        ("uid", "another", Change.REFUSED, [], []),
        ("fileNameOnly", "true", Change.FIRST_START, [], []),
        ("includeExistingFiles", "false", Change.FIRST_START, [], []),
    ],
)
def test_a_changed_option_has_the_declared_effect(
    name: str,
    value: str,
    change: Change,
    pending: list[str],
    following: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("in", "elsewhere"):
        (tmp_path / folder).mkdir()
    for file in "abc":
        (tmp_path / "in" / file).write_text(f"{file}\n{file}\n")
    given = {
        "enumerator": "files", "reader": "text", "path": "in", "stateLocation": "state",
        "maxFilesPerTrigger": "2",
    }  # fmt: skip
    engine = MicroBatchEngine(given)
    source = engine.source
    declared = {item.name: item for item in declared_options(source.enumerator_type, source.reader_type)}
    assert declared[name].changes is change
    engine.trigger()
    engine.restart(options={name: value})
    if change in (Change.REFUSED, Change.FIRST_START):
        with pytest.raises(IncompatibleStateError, match="written with other settings"):
            engine.run_batch()
        return
    batches = [sorted(Path(row[0]).name for row in batch.rows) for batch in engine.process_all_available()]
    assert batches == [pending, following]
