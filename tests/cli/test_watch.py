"""``flip27 watch``: frames of literal state on a recorded console, with literal times."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from flip27_source import savepoints
from flip27_source.cli.state.rows import Place
from flip27_source.cli.watch.command import drawn, watch_live
from flip27_source.cli.watch.view import WINDOW, Frame, SubtaskProgress, Watcher
from flip27_source.coordination.alignment import BatchHorizon
from flip27_source.coordination.batch_limits import Limits
from flip27_source.testing import MicroBatchEngine
from tests.cli.command_line import flip27, three_batches, two_batches
from tests.driver.test_reports import SERVER
from tests.savepoints.test_savepoints import paged
from tests.snapshots.spark_logs import FileQuery

NOW = dt.datetime(1970, 1, 1, 0, 0, 10, tzinfo=dt.UTC)

FRAME = Frame(
    lineage="orders-0123456789abcdef",
    at=NOW,
    checkpoint_id=17,
    batch_id=16,
    status="pending",
    created_at=NOW - dt.timedelta(seconds=2.5),
    lag_s=2.5,
    backlog=1200,
    live=1,
    finished=34_000,
    quarantined=2,
    rows_per_s=12_345.6,
    splits_per_s=100.0,
    batches=17,
    subtasks=(
        SubtaskProgress(subtask=0, splits=4, done=4, rows=2000, duration_ms=310, host="node-1"),
        SubtaskProgress(subtask=1, splits=4, done=0),
    ),
)


def at(second: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=second)


def recorded(width: int = 100) -> Console:
    return Console(file=io.StringIO(), width=width, record=True, color_system=None)


def test_a_frame_is_drawn_with_its_numbers_and_a_bar_for_each_subtask() -> None:
    console = recorded(90)
    console.print(drawn([FRAME], str))
    assert [line.strip("│╭╮╰╯─ ") for line in console.export_text().splitlines()] == [
        "orders-0123456789abcdef",
        "checkpoint   17, batch 16, pending  last complete   none yet",
        "backlog      1,200 splits           lag             2.5 s",
        "rows/s       12,345.6               splits/s        100.0",
        "live         1 split                finished        34,000 splits",
        "quarantined  2 splits               ignored         0 splits",
        "data lost    0 times                event time lag  not measured",
        "retained     17 checkpoints",
        "runbook, not delivered: docs/troubleshooting.md#splitreaderror",
        "batch in progress: reported: 0; gateways closed until they report: 1",
        f"subtask 0  {'━' * 24}  4/4 splits  2,000 rows, 310 ms on node-1",
        f"subtask 1  {' ' * 24}  0/4 splits",
        "",
    ]


def test_the_error_that_ended_the_query_is_drawn_first_with_what_to_do() -> None:
    console = recorded(90)
    driver = "failed at 2026-01-01 03:12:00 UTC, process 27 on node-1, epoch 3"
    error, remedy = "SplitReadError: [b.json] is damaged", "repair the file"
    console.print(drawn([replace(FRAME, driver=driver, error=error, remedy=remedy)], str))
    assert [line.strip("│ ") for line in console.export_text().splitlines()[1:4]] == [
        "failed at 2026-01-01 03:12:00 UTC, process 27 on node-1, epoch 3",
        "SplitReadError: [b.json] is damaged",
        "What to do: repair the file",
    ]


def test_nothing_that_is_drawn_controls_the_terminal() -> None:
    """Errors and names of splits quote names of files, and may contain anything."""
    evil = "\x1b]0;title\x07 \x9b31m"
    console = Console(file=io.StringIO(), width=200)
    frame = replace(
        FRAME,
        driver=evil,
        error=evil,
        remedy=evil,
        horizon=BatchHorizon(latest_us=0, slowest=evil),
        subtasks=(SubtaskProgress(subtask=0, splits=1, done=1, rows=1, duration_ms=1, host=evil),),
    )
    console.print(drawn([frame], str))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)
    assert shown.count(r"\x1b]0;title\x07 \x9b31m") == 5


def test_a_backlog_is_drawn_with_every_number_that_the_source_reports() -> None:
    console = recorded(120)
    console.print(
        drawn([replace(FRAME, backlog_rows=10_392, backlog_bytes=1_500_000, backlog_age_s=90.0)], str)
    )
    assert "backlog      1,200 splits, 10,392 rows, 1.5 MB, since 90.0 s " in console.export_text()


def test_many_subtasks_are_cut_off_and_counted() -> None:
    many = [SubtaskProgress(subtask=number, splits=1, done=1) for number in range(40)]
    console = recorded()
    console.print(drawn([Frame(lineage="a", at=NOW, checkpoint_id=1, subtasks=many)], str))
    text = console.export_text()
    assert "subtask 31" in text
    assert "subtask 32" not in text
    assert "and 8 more" in text


def test_a_frame_says_that_a_lineage_has_no_checkpoint_yet() -> None:
    console = recorded()
    console.print(drawn([Frame(lineage="a", at=NOW)], str))
    assert "no checkpoint yet" in console.export_text()


def pages_read(state: Path) -> Watcher:
    """Watch a query with batches of two rows at seconds 1, 3 and 5, the last of which is not complete."""
    SERVER["orders"] = list("abcdef")
    batches = paged(state)
    for number in (1, 3, 5):
        batches.now_ms = number * 1000
        batches.batch()
    return Watcher(place=Place(location=str(state)))


def test_numbers_are_computed_from_documents_and_reports_alone(tmp_path: Path) -> None:
    (frame,) = pages_read(tmp_path).frames(at(7))
    assert (frame.checkpoint_id, frame.status, frame.batches) == (3, "pending", 3)
    assert frame.lag_s == 2.0
    assert frame.rows_per_s == 1.0  # two batches of two rows, in four seconds
    assert frame.live == 1
    (subtask,) = frame.subtasks
    assert (subtask.splits, subtask.done, subtask.rows) == (1, 1, 2)


def test_rates_fall_while_a_batch_takes_longer_than_those_before_it(tmp_path: Path) -> None:
    watcher = pages_read(tmp_path)
    rates = [watcher.frames(at(second))[0].rows_per_s for second in (5, 7, 11, 403)]
    assert rates == [1.0, 1.0, 0.5, 0.01]  # four rows, in 4, 4, 8 and 400 seconds


def test_rates_of_an_idle_query_fall_and_count_its_last_batch(tmp_path: Path) -> None:
    watcher = Watcher(place=Place(location=str(two_batches(tmp_path).checkpoint)))
    rates = [watcher.frames(at(second))[0].splits_per_s for second in (4, 7, 301)]
    assert rates == [1.0, 0.5, 0.01]  # three files, in 3, 6 and 300 seconds


def test_a_batch_without_splits_has_read_no_rows(tmp_path: Path) -> None:
    landing, state = tmp_path / "landing", tmp_path / "state"
    landing.mkdir()
    options = {"enumerator": "files", "reader": "text", "path": str(landing), "taskReports": "always"}
    engine = MicroBatchEngine(options | {"stateLocation": str(state)})
    for name in ("a", None, "b"):
        if name is None:
            savepoints.request(state=str(state), to=str(tmp_path / "saved"))
        else:
            (landing / name).write_text("1\n2\n")
        engine.now_ms += 10_000
        engine.run_batch()
    engine.stop()
    assert [row["rows"] for row in flip27("state", "history", state, "--json").data] == [2, 0, 2]
    assert flip27("watch", state, "--json").data[0]["rows_per_s"] > 0


def test_the_first_batch_has_no_rate_before_it_is_complete(tmp_path: Path) -> None:
    query = FileQuery(tmp_path)
    query.land("a.txt")
    query.batch(now_ms=1_000, committed=False)
    (frame,) = Watcher(place=Place(location=str(query.checkpoint))).frames(NOW)
    assert (frame.status, frame.splits_per_s) == ("pending", None)


def test_a_running_batch_has_empty_bars_and_a_committed_batch_full_bars(tmp_path: Path) -> None:
    query = three_batches(tmp_path)
    (frame,) = Watcher(place=Place(location=str(query.checkpoint))).frames(NOW)
    assert (frame.checkpoint_id, frame.batch_id, frame.status) == (3, 2, "pending")
    assert [(item.done, item.splits) for item in frame.subtasks] == [(0, 1)]
    assert frame.rows_per_s is None
    assert frame.splits_per_s == 0.5  # three files in the six seconds from 1 to 7
    query.batch(now_ms=8_000)
    (frame,) = Watcher(place=Place(location=str(query.checkpoint))).frames(NOW)
    assert frame.status == "complete"


def test_only_what_the_last_frame_needed_is_kept(tmp_path: Path) -> None:
    query = FileQuery(tmp_path)
    query.limits = Limits(files=1)
    query.land(*map(str, range(2 * WINDOW)))
    watcher = Watcher(place=Place(location=str(query.checkpoint)))
    sizes = []
    for number in range(2 * WINDOW):
        query.batch(now_ms=1000 * number)
        watcher.frames(at(number))
        sizes.append(watcher.kept)
    assert sizes[WINDOW - 1] > 0
    assert sizes[-1] <= sizes[WINDOW]


def test_watching_draws_one_frame_for_each_tick_until_the_user_interrupts() -> None:
    looks: list[int] = []

    def look() -> list[Frame]:
        looks.append(1)
        return [Frame(lineage=f"look-{len(looks)}", at=NOW)]

    def ticks() -> Iterator[None]:
        yield
        yield
        raise KeyboardInterrupt

    screen = io.StringIO()
    watch_live(look, Console(file=screen, force_terminal=True, width=60), ticks(), str)
    assert len(looks) == 2
    assert "look-1" in screen.getvalue()
    assert "look-2" in screen.getvalue()


def test_once_prints_one_frame_and_json_prints_its_numbers(tmp_path: Path) -> None:
    query = three_batches(tmp_path)
    assert "3, batch 2, pending" in flip27("watch", query.checkpoint, "--once").out
    (frame,) = flip27("watch", query.checkpoint, "--once", "--json").data
    assert frame["checkpoint_id"] == 3
    assert frame["subtasks"] == [
        {"subtask": 0, "splits": 1, "done": 0, "rows": None, "duration_ms": None, "host": None}
    ]


def test_a_damaged_lineage_does_not_hide_the_others_of_its_state_location(tmp_path: Path) -> None:
    for name in ("a", "b"):
        two_batches(tmp_path / name)
    state = tmp_path / "state"
    state.mkdir()
    for found in tmp_path.glob("?/checkpoint/flip27/*"):
        found.rename(state / found.name)
    damaged, sound = sorted(state.iterdir())
    for document in (damaged / "checkpoints").iterdir():
        document.write_bytes(b"{")
    said = flip27("watch", state)
    assert said.code == 1
    assert "retained" in said.out
    assert "does not match its digest" in " ".join(said.out.replace("│", " ").split())
    assert "What to do: restore the file" in said.out
    frames = flip27("watch", state, "--json").data
    assert [(frame["lineage"], frame["unread"] is None) for frame in frames] == [
        (sound.name, True), (damaged.name, False),
    ]  # fmt: skip
    assert "does not match its digest" in flip27("watch", damaged).err


def test_only_one_frame_is_printed_without_a_terminal(tmp_path: Path) -> None:
    query = three_batches(tmp_path)
    assert flip27("watch", query.checkpoint).out.count("checkpoint ") == 1
