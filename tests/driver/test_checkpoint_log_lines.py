"""The line that each checkpoint writes to the log."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest

from flip27_source.errors import OptionError
from flip27_source.log import apply_log_level
from flip27_source.testing import Crashed, MicroBatchEngine, Step, literal_source
from tests.driver.batches import Batches
from tests.toy_sources import EchoReader, Shelf

SPLITS = {"a": [1, 2], "b": [3], "c": [4]}


@pytest.fixture(autouse=True)
def _level() -> Iterator[None]:
    """Undo a test's changes to the logger."""
    log = logging.getLogger("flip27_source")
    level, handlers, propagate = log.level, log.handlers[:], log.propagate
    yield
    log.setLevel(level)
    log.handlers[:], log.propagate = handlers, propagate


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="flip27_source")
    return caplog


def lines(log: pytest.LogCaptureFixture) -> list[str]:
    """The lines about checkpoints, with the measured durations masked."""
    found = [record.getMessage() for record in log.records if record.levelno == logging.INFO]
    return [re.sub(r"(planning_ms|write_ms)=\d+", r"\1=#", line) for line in found]


def test_each_checkpoint_is_one_line_with_its_numbers(log: pytest.LogCaptureFixture) -> None:
    engine = MicroBatchEngine(literal_source(SPLITS, maxFilesPerTrigger="2", uid="orders"))
    engine.process_all_available()
    expected = (
        "checkpoint={} source=orders splits={} rows={} bytes={} backlog={} discovery_age_ms=0 "
        "planning_ms=# write_ms=#"
    )
    assert lines(log) == [expected.format(1, 2, 3, 8 << 20, 1), expected.format(2, 1, 1, 4 << 20, 0)]


def test_the_numbers_are_fields_of_the_log_record(log: pytest.LogCaptureFixture) -> None:
    MicroBatchEngine(literal_source(SPLITS)).run_batch()
    fields = vars(log.records[0])["flip27"]
    assert (fields["checkpoint"], fields["splits"], fields["backlog"]) == (1, 3, 0)


def test_an_idle_stream_logs_nothing(log: pytest.LogCaptureFixture) -> None:
    engine = MicroBatchEngine(literal_source(SPLITS))
    engine.process_all_available()
    before = lines(log)
    assert engine.run_batch() is None
    assert lines(log) == before


def test_a_checkpoint_that_was_not_written_is_not_logged(log: pytest.LogCaptureFixture) -> None:
    engine = MicroBatchEngine(literal_source(SPLITS))
    with pytest.raises(Crashed):
        engine.run_batch(crash_at=Step.STATE_WRITE)
    assert lines(log) == []


def test_the_age_of_discovery_grows_until_its_next_round(log: pytest.LogCaptureFixture) -> None:
    engine = MicroBatchEngine(literal_source(SPLITS, maxFilesPerTrigger="2"), available_now=True)
    engine.run_batch()
    engine.now_ms = 5000
    engine.run_batch()
    ages = [re.search(r"discovery_age_ms=(\S+)", line) for line in lines(log)]
    assert [age and age[1] for age in ages] == ["0", "5000"]


def test_polling_for_requests_is_no_discovery_and_an_unknown_size_is_not_reported_as_0(
    log: pytest.LogCaptureFixture,
) -> None:
    batches = Batches(Shelf, EchoReader)
    batches.shelve("a")
    batches.holder.latest_offset(batches.logged, None)
    assert "discovery_age_ms=unknown" in lines(log)[0]
    assert "splits=1 rows=unknown bytes=unknown" in lines(log)[0]
    assert vars(log.records[0])["flip27"]["rows"] is None


def test_the_level_is_taken_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("flip27_source")
    logger.propagate = False
    monkeypatch.setenv("FLIP27_LOG_LEVEL", "info")
    apply_log_level()
    apply_log_level()
    MicroBatchEngine(literal_source(SPLITS)).run_batch()
    (line,) = capsys.readouterr().err.splitlines()
    assert "INFO flip27_source: checkpoint=1 " in line


def test_without_the_environment_variable_logging_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLIP27_LOG_LEVEL", raising=False)
    logger = logging.getLogger("flip27_source")
    before = (logger.level, logger.handlers[:])
    apply_log_level()
    assert (logger.level, logger.handlers) == before


def test_an_unknown_level_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLIP27_LOG_LEVEL", "chatty")
    with pytest.raises(OptionError, match="'chatty', which is not a Python logging level"):
        apply_log_level()
