"""Values of options: any text is used or refused; another value at a restart has the declared effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from flip27_source.errors import Flip27Error, IncompatibleStateError, OptionError
from flip27_source.options import Change, Option, Options
from flip27_source.source import Source, declared_options
from flip27_source.testing import MicroBatchEngine
from scripts.options_table import tables
from tests.odd_values import ODD_TEXTS


def declared() -> Iterator[Any]:
    for title, options in tables():
        for option in options:
            yield pytest.param(option, id=f"{title}: {option.name}")


@pytest.mark.filterwarnings("ignore::FutureWarning")  # regular expressions
@pytest.mark.parametrize("option", list(declared()))
def test_an_odd_value_of_an_option_is_used_or_refused_by_name(option: Option[Any]) -> None:
    refusals = []
    for text in ODD_TEXTS:
        try:
            Options.parse({option.name: text}, [option])
        except OptionError as error:
            refusals.append(str(error))
    assert [said for said in refusals if option.name not in said] == []


SOURCES = {
    "sequence": {"enumerator": "sequence", "end": "10"},
    "text": {"enumerator": "files", "reader": "text", "path": "in"},
    "csv": {"enumerator": "files", "reader": "csv", "path": "in"},
    "json": {"enumerator": "files", "reader": "json", "path": "in"},
    "binary": {"enumerator": "files", "reader": "binary", "path": "in"},
}


def options_of_sources() -> Iterator[Any]:
    seen = set()
    for name, given in SOURCES.items():
        source = Source.resolve(given)
        for option in declared_options(source.enumerator_type, source.reader_type):
            if option not in seen and option.name not in ("enumerator", "reader"):
                seen.add(option)
                yield pytest.param(given, option, id=f"{name} {option.name}")


@pytest.mark.parametrize(("given", "option"), list(options_of_sources()))
def test_a_batch_with_an_odd_value_of_an_option_is_read_or_fails_with_an_error_of_ours(
    given: dict[str, str], option: Option[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text('{"id": 1}\n')
    for number, text in enumerate(ODD_TEXTS):
        with suppress(Flip27Error):
            engine = MicroBatchEngine({**given, "stateLocation": f"state-{number}", option.name: text})
            engine.run_batch()
            engine.stop()


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


@pytest.mark.parametrize(
    ("given", "same", "others"),
    [
        ({"end": "10"}, {"start": "0", "numSplits": "1", "end": " 010"}, [("start", "1"), ("end", "11")]),
        ({"end": "10", "start": "0"}, {"start": None}, [("start", "1")]),
        ({"end": "10", "START": "00"}, {"start": "0", "numSplits": "1"}, [("numSplits", "2")]),
    ],
)
def test_a_fixed_option_may_be_written_in_another_way(
    given: dict[str, str], same: dict[str, str | None], others: list[tuple[str, str]], tmp_path: Path
) -> None:
    state = str(tmp_path / "state")
    engine = MicroBatchEngine(
        {"enumerator": "sequence", "rowsPerSplit": "2", "stateLocation": state, **given}
    )
    engine.trigger()
    engine.restart(options=same)
    engine.process_all_available()
    assert sorted(row[0] for row in engine.rows) == list(range(10))
    for name, text in others:
        engine.restart(options={name: text})
        with pytest.raises(IncompatibleStateError, match=f"option {name}: was .*, is '{text}'"):
            engine.run_batch()
        engine.restart(options={name: given.get(name)})
