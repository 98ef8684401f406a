"""What the pages of ``flip27 ui`` say, and that they say it for hostile names and damaged states too."""

from __future__ import annotations

import datetime as dt
import html
import os
import re
import shutil
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, quote

import pyarrow as pa
import pytest

from flip27_source.cli.commands import FileSystem
from flip27_source.cli.state.rows import Place, StoredState
from flip27_source.cli.ui.pages import SPLITS
from flip27_source.cli.ui.words import catches_up, seconds
from flip27_source.cli.watch.view import Frame
from flip27_source.coordination.batch_limits import Limits
from flip27_source.errors import StateLocationError
from flip27_source.snapshots.driver_epochs import DriverEpoch, FailedCheckpoint
from flip27_source.snapshots.store import LocalStore
from flip27_source.testing import MicroBatchEngine
from flip27_source.testing.steps import Crashed, Step
from tests.cli.command_line import flip27, three_batches
from tests.deadline import until
from tests.golden.worlds import topics
from tests.snapshots.spark_logs import FileQuery
from tests.ui.queries import HOSTILE, DiskQuery
from tests.ui.served import Served, pages_of, served

NOW = dt.datetime(1970, 1, 1, 0, 1, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def page(hostile: DiskQuery) -> Iterator[Served]:
    with served(pages_of([hostile.checkpoint])) as found:
        yield found


def text_of(page: str) -> str:
    """The text of a page, without its tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def links(page: str, part: str) -> list[str]:
    return [html.unescape(link) for link in re.findall(r'href="([^"]*)"', page) if part in link]


def source_path(page: Served) -> str:
    return links(page.get().text, "/batches")[0].removesuffix("/batches")


def test_a_checkpoint_that_was_gone_back_from_has_no_tasks_of_the_one_with_its_number(tmp_path: Path) -> None:
    query = DiskQuery.new(tmp_path)
    query.land("a.parquet")
    query.batch()
    query.land("b.parquet")
    query.engine.crash_at(Step.OFFSET_RETURNED)
    with pytest.raises(Crashed):
        query.engine.trigger()
    query.engine.restart()
    query.land("c.parquet")
    query.batch()
    with served(pages_of([query.checkpoint])) as shown:
        listed = shown.get(source_path(shown) + "/checkpoints").text
        batches = {text_of(shown.get(link).text) for link in links(listed, "/batch?checkpoint=2-")}
    reported = {re.search("Reports ([01] of 1)", text)[1] for text in batches if "Reports" in text}  # type: ignore[index]
    assert reported == {"0 of 1", "1 of 1"}
    drawn = {re.search("enumerator (. [01] of 1) reported", text)[1] for text in batches if "Reports" in text}  # type: ignore[index]
    assert drawn == {"\u2013 0 of 1", "✓ 1 of 1"}
    query.engine.stop()


def test_the_first_screen_answers_whether_it_runs_is_behind_and_what_is_missing(page: Served) -> None:
    text = text_of(page.get().text)
    assert "1 source, 1 lost" in text
    assert "lost, last heard of at 1970-01-01 00:00:02 UTC, process" in text
    assert "Last complete batch checkpoint 2 planned 1970-01-01 00:00:04 UTC" in text
    assert "Backlog 0 splits, 0 rows, 0 bytes and nothing looks for more" in text
    assert "3 quarantined , 0 ignored data lost 0 times" in text


@pytest.mark.parametrize("view", ["batches", "splits", "quarantine", "checkpoints", "splits?status=live"])
def test_a_page_of_a_hostile_source_has_only_our_own_tags(view: str, page: Served) -> None:
    answer = page.get(f"{source_path(page)}/{view}")
    assert answer.status == 200
    tags = set(re.findall(r"<\s*([a-zA-Z]+)", answer.text))
    assert not tags & {"img", "iframe", "object", "style", "form2"}
    assert answer.text.count("<script") == 1
    assert re.findall(r"\son\w+\s*=", re.sub(r">[^<]*<", "><", answer.text)) == []
    assert "\x1b" not in answer.text
    assert "\u202e" not in answer.text


def test_each_split_has_a_page_of_its_own_whatever_its_name(page: Served) -> None:
    path = source_path(page)
    found = links(page.get(f"{path}/splits").text, "/split?")
    assert len(found) == len(HOSTILE) + 1
    for link in found:
        answer = page.get(quote(link, safe="/?&=%+"))
        assert answer.status == 200, link
        assert "Batches that read it" in answer.text


def test_the_quarantine_names_the_file_its_error_and_the_command_that_retries_it(
    page: Served, hostile: DiskQuery
) -> None:
    text = text_of(page.get(f"{source_path(page)}/quarantine").text)
    assert "Quarantined: 3" in text
    assert "<img src=x onerror=alert(1)>.parquet is truncated or damaged: ArrowInvalid" in text
    assert f"flip27 edit quarantine retry --state {hostile.checkpoint}/flip27 --lineage files-" in text


def test_a_batch_shows_its_tasks_and_splits(page: Served) -> None:
    (older,) = [at for at in links(page.get(f"{source_path(page)}/batches").text, "/batch?") if "=1-" in at]
    text = text_of(page.get(older).text)
    assert "Checkpoint 1, batch 0: complete" in text
    assert "6 splits (6 files) in 1 task" in text
    assert "Reports 1 of 1" in text
    assert "quarantined 1" in text
    assert "✓ planned by the enumerator ✓ 1 of 1 reported 0 ✓ ✓ complete" in text


def test_a_batch_in_progress_shows_which_tasks_have_reported_and_which_gateways_are_closed(
    tmp_path: Path,
) -> None:
    given = {
        "enumerator": "kafka", "reader": "kafka", "kafka.bootstrap.servers": "simulated:9092",
        "subscribe": "trips", "startingOffsets": "earliest", "taskReports": "always",
        "stateLocation": str(tmp_path / "checkpoint" / "flip27"),
    }  # fmt: skip
    schema = pa.schema([("value", pa.binary())])
    with topics(("trips", (5,) * 40)):
        query = DiskQuery(tmp_path, MicroBatchEngine(given, schema=schema, parallelism=40))
        query.plan(2, reported=30)
    with served(pages_of([query.checkpoint])) as found:
        batches = found.get(f"{source_path(found)}/batches").text
        text = text_of(found.get(links(batches, "/batch?")[0]).text)
    assert "✓ planned by the enumerator … 30 of 40 reported 0 ✓ 1 ✓ 2 ✓" in text
    assert "13 ✓ 30 … ┃ 31 … ┃" in text
    assert "39 … ┃ and 16 more … not known to be complete by Spark's commit" in text
    query.engine.stop()


def test_splits_are_found_by_a_part_of_their_name_and_by_status(page: Served) -> None:
    path = source_path(page)
    assert len(links(page.get(f"{path}/splits?name=later").text, "/split?")) == 1
    assert len(links(page.get(f"{path}/splits?name={quote('<img')}").text, "/split?")) == 1
    assert len(links(page.get(f"{path}/splits?status=finished").text, "/split?")) == 4
    assert len(links(page.get(f"{path}/splits?name=nothing").text, "/split?")) == 0
    assert "3 quarantined" in page.get(f"{path}/splits?status=quarantined").text


def test_what_changed_between_two_checkpoints_is_shown(page: Served) -> None:
    path = source_path(page)
    values = re.findall(r'name="before" value="([^"]+)"', page.get(f"{path}/checkpoints").text)
    text = text_of(page.get(f"{path}/checkpoints?before={values[1]}&after={values[0]}").text)
    assert "ledger quarantined 0 3" in text


@pytest.mark.parametrize(
    "path",
    ["/s/0/nothing/batches", "/s/x/y/z", "/s/0/{lineage}/batch", "/s/0/{lineage}/split?id=a", "/nothing"],
)
def test_what_does_not_exist_is_said_with_a_remedy(path: str, page: Served) -> None:
    lineage = source_path(page).rpartition("/")[2]
    answer = page.get(path.replace("{lineage}", lineage))
    assert answer.status == 404
    assert "What to do:" in answer.text


def test_a_location_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path, hostile: DiskQuery) -> None:
    with served(pages_of([tmp_path / "nowhere", hostile.checkpoint])) as found:
        text = text_of(found.get().text)
    assert "cannot be read" in text
    assert "is empty or does not exist" in text
    assert "1 source, 1 location cannot be read, 1 lost" in text
    assert text.startswith("1 location cannot be read 1 lost flip27")
    assert "What to do: give a state location" in text
    assert "1 lost" in text


def test_a_damaged_lineage_does_not_hide_the_others_of_its_state_location(tmp_path: Path) -> None:
    for name in ("a", "b"):
        query = DiskQuery.new(tmp_path / name, stateLocation=str(tmp_path / "state"))
        query.land("x.parquet")
        query.batch()
        query.engine.stop()
    damaged, sound = sorted((tmp_path / "state").glob("files-*"))
    for document in (damaged / "checkpoints").iterdir():
        document.write_bytes(b"{")
    with served(pages_of([tmp_path / "state"])) as found:
        text = text_of(found.get().text)
        assert found.get(f"/s/0/{sound.name}/batches").status == 200
        assert found.get(f"/s/0/{damaged.name}/batches").status == 500
    assert "1 source, 1 location cannot be read" in text
    assert f"{damaged} \u2716 cannot be read" in text


@contextmanager
def silent_store() -> Iterator[Place]:
    """A place on a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = [f"endpoint_url=http://127.0.0.1:{server.getsockname()[1]}", "key=a", "secret=b"]
        yield Place(location="s3://silent/state", stored=StoredState(files=FileSystem(storage=words)))


def test_a_store_that_does_not_answer_holds_only_its_own_pages(
    hostile: DiskQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flip27_source.cli.ui.sources.ANSWER_S", 0.1)
    monkeypatch.setattr("flip27_source.cli.ui.sources.LATE_S", 0.1)
    monkeypatch.setattr("flip27_source.cli.ui.answers.LATE_S", 0.1)
    with silent_store() as silent, served(pages_of([silent, hostile.checkpoint])) as found:
        for _ in range(2):
            # On a busy machine the one on disk may need longer than this time limit, too.
            until(lambda: "1 source, 1 location cannot be read, 1 lost" in text_of(found.get().text))
            assert "s3://silent/state has not answered for" in text_of(found.get().text)
        assert found.get(f"{source_path(found)}/splits").status == 200
        answer = found.get("/s/0/files-0000000000000000/batches")
        assert answer.status == 500
        assert "has not answered for" in answer.text


def test_a_source_at_two_locations_is_shown_once(hostile: DiskQuery) -> None:
    with served(pages_of([hostile.checkpoint, hostile.checkpoint / "flip27"])) as found:
        assert found.get().text.count("<section") == 1


def test_a_damaged_checkpoint_is_an_error_of_its_page_that_names_the_file(tmp_path: Path) -> None:
    query = three_batches(tmp_path)
    (document, *_) = sorted((query.checkpoint / "flip27").glob("*/checkpoints/2-*"))
    document.write_bytes(document.read_bytes()[:-9])
    with served(pages_of([query.checkpoint])) as found:
        answer = found.get()
        assert document.name in answer.text
        assert "restore the file from a backup" in answer.text


def test_a_query_that_begins_anew_at_its_location_is_shown_by_an_open_page(tmp_path: Path) -> None:
    """Spark's offset log is then shorter than what the page has read."""
    first = DiskQuery.new(tmp_path / "query")
    for number in range(8):
        first.land(f"{number}.parquet")
        first.batch()
    pages = pages_of([first.checkpoint])
    pages.sources.look(NOW)
    shutil.rmtree(first.root)
    second = DiskQuery.new(first.root)
    for number in range(3):
        second.land(f"{number}.parquet")
        second.batch()
    pages.sources.look(NOW.replace(minute=2))
    assert [source.frame.checkpoint_id for source in pages.sources.found] == [3]
    assert pages.sources.unread == []
    first.engine.stop()
    second.engine.stop()


def test_a_batch_that_was_looked_at_before_spark_logged_it_is_shown_with_its_reports(tmp_path: Path) -> None:
    query = DiskQuery.new(tmp_path / "query")
    for name in ("a.parquet", "b.parquet"):
        query.land(name)
        query.batch()
    (report,) = (query.checkpoint / "flip27").glob("*/reports/2-*")
    (offset,), commits = query.checkpoint.glob("offsets/1"), query.checkpoint / "commits"
    later = {path: path.read_bytes() for path in (report, offset, commits / "1")}
    for path in later:
        path.unlink()
    pages = pages_of([query.checkpoint])
    pages.sources.look(NOW)
    (source,) = pages.sources.found
    pages.page(source.key, "checkpoints", {})
    for path, content in later.items():
        path.write_bytes(content)
    pages.sources.look(NOW.replace(minute=2))
    (source,) = pages.sources.found
    name = source.history.line().names[-1]
    text = text_of(pages.page(source.key, "batch", {"checkpoint": str(name)}))
    assert "Checkpoint 2, batch 1: complete" in text
    assert "Reports 1 of 1" in text
    query.engine.stop()


def test_after_an_unexpected_error_old_sources_are_not_shown_as_of_now(
    hostile: DiskQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = pages_of([hostile.checkpoint])
    pages.sources.look(NOW)

    def fails(_place: Place, *_args: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Place, "histories", fails)
    for second in (10.0, 10.5):
        with pytest.raises(ZeroDivisionError):
            pages.sources.look(NOW + dt.timedelta(seconds=second))
    assert pages.sources.at == NOW


def test_splits_are_shown_page_by_page(tmp_path: Path) -> None:
    query = FileQuery(tmp_path)
    query.land(*(f"{number:03}.txt" for number in range(2 * SPLITS + 30)))
    query.limits = Limits(files=SPLITS + 10)
    query.batch(now_ms=1_000)
    with served(pages_of([query.checkpoint])) as found:
        path, seen, asked = source_path(found), [], "splits"
        while asked:
            page = found.get(f"{path}/{asked}").text
            seen += links(page, "/split?")
            further = re.findall(r'name="at" value="([^"]+)"', page)
            asked = f"splits?at={quote(further[0])}" if further else ""
        assert len(seen) == len(set(seen)) == 2 * SPLITS + 30
        assert "110.txt: waiting" in text_of(found.get(seen[0]).text)


def test_looking_changes_nothing_on_disk(hostile: DiskQuery) -> None:
    def everything() -> dict[str, tuple[int, bytes]]:
        found = [Path(at) / name for at, _, names in os.walk(hostile.checkpoint) for name in names]
        return {str(file): (file.stat().st_mtime_ns, file.read_bytes()) for file in found}

    before = everything()
    with served(pages_of([hostile.checkpoint])) as found:
        for view in ("batches", "splits", "quarantine", "checkpoints"):
            found.get(f"{source_path(found)}/{view}")
    assert everything() == before


def test_secrets_are_masked_on_every_page_and_are_in_no_link(hostile: DiskQuery) -> None:
    secret = "later"  # as if it were one: the name of a file
    with served(pages_of([hostile.checkpoint], lambda text: text.replace(secret, "***"))) as found:
        for view in ("batches", "splits", "quarantine", "checkpoints"):
            text = found.get(f"{source_path(found)}/{view}").text
            assert secret not in text
            assert (view == "splits") == ("***.parquet" in text)


@pytest.mark.parametrize("name", ["at", "before", "after", "checkpoint", "name", "status", "id", "with"])
@pytest.mark.parametrize(
    "value", ["", "²", "1" * 5000, "a+" + "9" * 12, "%00", "%ff", "%ed%b3%bf", "{{7*7}}", "../.."]
)
def test_whatever_a_url_asks_for_is_answered_without_a_fault(name: str, value: str, page: Served) -> None:
    path = source_path(page)
    for view in ("batches", "batch", "splits", "split", "quarantine", "checkpoints"):
        asked = f"{path}/{view}?{name}={quote(value, safe='%')}&before=1"
        assert page.get(asked).status in (200, 404), view


def test_a_report_is_one_file_without_scripts_links_and_secrets(hostile: DiskQuery, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    said = flip27(
        "ui", "--checkpoint-location", hostile.checkpoint, "--storage", "secret=later", "--export", file
    )
    assert (said.code, said.out.strip()) == (0, f"{file} shows 1 source.")
    text = file.read_text()
    tags = re.findall(r"<[a-z][^>]*>", text)
    assert [tag for tag in tags if re.search(r"<script|stylesheet|src=|href=.(?!data:,)", tag)] == []
    assert "url(" not in text
    for part in ("Quarantined: 3", "Time line", "What to do", "Checkpoints"):
        assert part in text


def test_a_report_of_what_cannot_be_read_says_so_and_fails(tmp_path: Path) -> None:
    said = flip27("ui", "--state", tmp_path / "nowhere", "--export", tmp_path / "report.html")
    assert said.code == 1
    assert "does not exist" in said.err
    assert "cannot be read" in (tmp_path / "report.html").read_text()


def test_a_report_that_cannot_be_written_is_refused(tmp_path: Path, hostile: DiskQuery) -> None:
    said = flip27("ui", "--state", hostile.checkpoint, "--export", tmp_path / "no folder" / "report.html")
    assert said.code == 1
    assert "no folder/report.html cannot be written" in said.err


def test_without_a_location_the_command_says_what_to_give() -> None:
    assert "--checkpoint-location" in flip27("ui").err


def test_json_has_what_the_first_screen_shows(hostile: DiskQuery) -> None:
    said = flip27("ui", "--checkpoint-location", hostile.checkpoint, "--json")
    (source,) = said.data["sources"]
    assert (source["condition"], source["complete_id"], source["quarantined"]) == ("lost", 2, 3)


@pytest.mark.parametrize(
    ("backlog", "growth", "condition", "said"),
    [
        (0, None, "running", "level"),
        (0, None, "stopped", "and nothing looks for more"),
        (120, -2.0, "running", "catches up: level in about 1 min"),
        (120, 2.5, "running", "does not catch up: +2.5 splits/s"),
        (120, -2.0, "stopped", "does not catch up: nothing reads it"),
        (120, None, "running", "not known before the second batch"),
        (120, -2.0, "unknown", "it is not known whether its driver runs"),
        (120, -2.0, None, "it is not known whether its driver runs"),
    ],
)
def test_whether_a_backlog_is_caught_up_with(
    backlog: int, growth: float | None, condition: str | None, said: str
) -> None:
    frame = Frame(lineage="a", at=NOW, condition=condition, backlog=backlog, backlog_per_s=growth)
    assert catches_up(frame) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0 s"), (0.31, "0.3 s"), (59.9, "60 s"), (60, "1 min"), (3700, "1 h 1 min"), (200_000, "2 d 7 h")],
)
def test_a_time_span_has_at_most_two_units(value: float, said: str) -> None:
    assert seconds(value) == said


def test_the_estimate_follows_the_backlog_of_the_newest_batches(tmp_path: Path) -> None:
    query = FileQuery(tmp_path)
    query.land(*map(str, range(40)))
    query.limits = Limits(files=10)
    for second in (1, 3, 5):
        query.batch(now_ms=1000 * second)
    pages = pages_of([Place(location=str(query.checkpoint))])
    pages.sources.look(NOW.replace(minute=0, second=5))
    (source,) = pages.sources.found
    assert (source.frame.backlog, source.frame.backlog_per_s) == (10, -5.0)


def test_what_the_newest_batch_could_not_read_counts_at_once(tmp_path: Path) -> None:
    query = DiskQuery.new(tmp_path)
    query.land("torn.parquet", rows=None)
    query.batch()
    pages = pages_of([query.checkpoint])
    pages.sources.look(NOW)
    (source,) = pages.sources.found
    assert source.frame.quarantined == 1
    query.land("next.parquet")
    query.batch()
    pages.sources.look(NOW + dt.timedelta(seconds=2))
    (source,) = pages.sources.found
    assert source.frame.quarantined == 1
    query.engine.stop()


def test_failed_checkpoints_and_the_error_of_a_driver_are_on_the_first_screen(tmp_path: Path) -> None:
    query = three_batches(tmp_path)
    state = query.checkpoint / "flip27"
    (lineage,) = (folder.name for folder in state.iterdir() if folder.name.startswith("files-"))
    failures = tuple(FailedCheckpoint(at_ms=1000 * n, error=f"<b>timed out {n}</b>") for n in range(3))
    epoch = DriverEpoch(LocalStore(str(state)), lineage, 9_000, notes={"failed": failures})
    epoch.end(10_000, StateLocationError("<i>no space</i>", remedy="add <u>space</u>"))
    with served(pages_of([query.checkpoint])) as found:
        first, checkpoints = found.get().text, found.get(f"{source_path(found)}/checkpoints").text
    assert re.findall(r"<[biu]>", first + checkpoints) == []
    text = text_of(first)
    assert "failed at 1970-01-01 00:00:10 UTC" in text
    assert "StateLocationError: <i>no space</i> What to do: add <u>space</u>" in text
    assert "3 failed checkpoints , the last 1970-01-01 00:00:02 UTC" in text
    assert "1 source, 1 failed" in text
    assert [n for n in range(3) if f"<b>timed out {n}</b>" in text] == [2]
    assert [n for n in range(3) if f"<b>timed out {n}</b>" in text_of(checkpoints)] == [0, 1, 2]


def test_a_source_is_asked_from_the_page_only_if_that_is_allowed(tmp_path: Path) -> None:
    query = three_batches(tmp_path)
    query.land("new.txt")
    with served(pages_of([query.checkpoint])) as found:
        path = source_path(found)
        assert "/ask" not in found.get(f"{path}/progress").text
        assert found.get(f"{path}/ask?token=").status == 404
    pages = pages_of([query.checkpoint], looks_with={"path": str(tmp_path / "landing")})
    with served(pages) as found:
        path = source_path(found)
        (token,) = re.findall(r'name="token" value="([^"]+)"', found.get(f"{path}/progress").text)
        for wrong in ("", "guess", "%ff"):
            assert found.get(f"{path}/ask?token={wrong}").status == 404
        assert "in the source" not in found.get(path + "/batches").text
        answer = found.get(f"{path}/ask?token={token}")
        assert (answer.status, answer.headers["location"]) == (303, f"{path}/progress")
        said = "1 splits that the state does not have"
        until(lambda: said in text_of(found.get(f"{path}/progress").text))
        assert said in text_of(found.get().text)
        asked = pages.sources.found[0].frame.looked
        found.get(f"{path}/ask?token={token}")  # within ten seconds
        found.get()
        assert pages.sources.found[0].frame.looked == asked


def test_the_first_bytes_of_quarantined_files_are_shown_if_the_source_was_asked(tmp_path: Path) -> None:
    query = DiskQuery.new(tmp_path)
    query.land("torn.parquet", "gone.parquet", rows=None)
    for name in ("a", "b"):
        query.land(f"{name}.parquet")
        query.batch()
    query.engine.stop()
    (tmp_path / "landing" / "gone.parquet").unlink()
    pages = pages_of([query.checkpoint], looks_with={"path": str(tmp_path / "landing")})
    pages.sources.look_into(pages.looks_with or {}, NOW, limit_s=None)
    pages.sources.look(NOW)
    (source,) = pages.sources.found
    text = text_of(pages.page(source.key, "quarantine", {}))
    assert text.count("First bytes of the file") == 1
    assert "6e 6f 74 20 50 61 72 71 75 65 74 not Parquet" in text


def test_names_that_a_look_finds_are_as_hostile_as_those_of_the_state(tmp_path: Path) -> None:
    query = DiskQuery.new(tmp_path)
    query.land("first.parquet")
    query.batch()
    query.engine.stop()
    query.land(*HOSTILE, rows=None)
    pages = pages_of([query.checkpoint], looks_with={"path": str(tmp_path / "landing")})
    pages.sources.look_into(pages.looks_with or {}, NOW, limit_s=None)
    pages.sources.look(NOW)
    (source,) = pages.sources.found
    page = pages.page(source.key, "progress", {})
    assert f"{len(HOSTILE)} splits that the state does not have" in page
    assert not set(re.findall(r"<\s*([a-zA-Z]+)", page)) & {"img", "iframe", "object"}
    assert page.count("<script") == 1
    assert not {"\x1b", "\u202e"} & set(page)
    for query_ in ({"name": "<img"}, {"from1": "99999999999"}, {"from0": "-1"}):
        assert pages.page(source.key, "progress", query_)
    found = flip27(
        "ui", "--checkpoint-location", query.checkpoint, "--look", "--path", query.root / "landing", "--json"
    )
    assert found.code == 0


def test_a_page_that_searches_long_is_no_store_that_does_not_answer(
    hostile: DiskQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flip27_source.cli.ui.sources.LATE_S", 0.0)
    pages = pages_of([hostile.checkpoint])
    pages.sources.look(NOW)
    (source,) = pages.sources.found
    with pages.sources.held(source.key, NOW):
        pages.sources.look(NOW + dt.timedelta(seconds=9), limit_s=0.05)
        assert pages.sources.unread == []
        assert [one.key for one in pages.sources.found] == [source.key]


def test_the_rows_of_a_file_are_shown_where_its_task_has_read_nothing_else(tmp_path: Path) -> None:
    query = DiskQuery.new(tmp_path)
    query.land("alone.parquet", rows=7)
    query.batch()
    query.engine.stop()
    with served(pages_of([query.checkpoint])) as found:
        path = source_path(found)
        assert "alone.parquet finished 1 01-01 00:00:02 0 7" in text_of(
            found.get(f"{path}/splits?name=alone").text
        )
        (link,) = links(found.get(f"{path}/splits").text, "/split?")
        assert "7 (1 split)" in text_of(found.get(quote(link, safe="/?&=%+")).text)
        assert "Planning" in found.get(f"{path}/checkpoints").text
        assert re.search(r"Planning Writing .*\d ms \d+ ms", text_of(found.get(f"{path}/batches").text))


GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*/*/checkpoint"))


@pytest.mark.parametrize("checkpoint", GOLDEN, ids=lambda at: "-".join(at.parts[-3:-1]))
def test_every_page_of_every_source_and_of_older_states_is_made(checkpoint: Path) -> None:
    pages = pages_of([checkpoint])
    pages.sources.look(dt.datetime.now(dt.UTC))
    assert pages.sources.unread == []
    for source in pages.sources.found:
        seen = {"batches?", "progress?", "splits?", "splits?status=live", "quarantine?", "checkpoints?"}
        todo = sorted(seen)
        while todo:
            view, _, query = todo.pop().partition("?")
            text = pages.page(source.key, view, dict(parse_qsl(query)))
            new = {link.rpartition("/")[2] for link in links(text, "/split?") + links(text, "/batch?")} - seen
            seen |= new
            todo += sorted(new)
        assert len(seen) > 6


def test_the_place_of_the_switch_of_a_chain_is_shown() -> None:
    (checkpoint,) = [at for at in GOLDEN if at.parts[-3:-1] == ("0.2.0", "chain")]
    pages = pages_of([checkpoint])
    pages.sources.look(dt.datetime.now(dt.UTC))
    text = text_of(pages.page(pages.sources.found[0].key, "progress", {}))
    assert "source 3 of 3 is read: hybrid.3 (files), which began at the switch 6" in text
    assert "hybrid.2 (sequence) was read to its end 3" in text


def test_a_record_of_kafka_that_cannot_be_decoded_is_shown_in_hex_and_as_text() -> None:
    (checkpoint,) = [at for at in GOLDEN if at.parts[-3:-1] == ("0.2.0", "kafka-quarantine")]
    pages = pages_of([checkpoint])
    pages.sources.look(dt.datetime.now(dt.UTC))
    text = text_of(pages.page(pages.sources.found[0].key, "quarantine", {}))
    shown = re.findall(r"Value, first bytes: ((?:[0-9a-f]{2} )+)(\S+)", text)
    assert shown
    for in_hex, as_text in shown:
        assert bytes.fromhex(in_hex).decode(errors="replace") == as_text


@pytest.mark.parametrize("missing", ["starlette", "uvicorn", "jinja2", "markdown_it"])
def test_a_missing_package_is_named_with_the_extra_that_installs_it(
    missing: str, hostile: DiskQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(("flip27_source.cli.ui.", f"{missing}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    said = flip27("ui", "--state", hostile.checkpoint, "--json")
    assert said.code == 1
    assert "needs the package starlette" in said.data["error"]["what"]
    assert said.data["error"]["remedy"] == "pip install 'flip27-source[ui]' in this environment"


def test_pages_are_made_while_the_query_cleans_up_what_they_read(tmp_path: Path) -> None:
    query = DiskQuery.new(tmp_path, retainedCheckpoints="2")
    query.land("first.parquet")
    query.batch()
    with served(pages_of([query.checkpoint, query.checkpoint / "flip27"])) as found:
        path = source_path(found)
        views = ("/", *(f"{path}/{view}" for view in ("batches", "splits", "quarantine", "checkpoints")))
        for number in range(25):
            query.land(f"{number}.parquet")
            with ThreadPoolExecutor() as threads:
                answers = threads.map(found.get, views)  # while the batch runs
                query.batch()
            for answer in answers:
                assert answer.status == 200, text_of(answer.text)
                assert "cannot be read" not in answer.text
        assert "checkpoint 26" in text_of(found.get().text)
    query.engine.stop()


def test_what_limits_batches_is_said_as_in_watch(tmp_path: Path) -> None:
    query = DiskQuery.new(tmp_path, targetBatchDuration="30 s")
    query.land("a.parquet")
    query.batch()
    query.engine.stop()
    with served(pages_of([query.checkpoint])) as found:
        for page in (
            found.get(),
            found.get(links(found.get(source_path(found) + "/batches").text, "/batch?")[0]),
        ):
            assert "batches of 30 s: at most 100 files or " in text_of(page.text)
    assert "batches of 30 s: at most 100 files or " in flip27("watch", query.checkpoint).out


def test_the_limit_that_has_ended_a_batch_is_said_as_in_watch(tmp_path: Path) -> None:
    query = DiskQuery.new(tmp_path, maxFilesPerTrigger="2")
    query.land("a.parquet", "b.parquet", "c.parquet", "d.parquet")
    said, none = (
        "the batch of checkpoint 1 was ended by its limit of 2 files",
        "none is known to have ended it",
    )
    query.batch()
    assert said in flip27("watch", query.checkpoint).out
    query.batch()
    query.engine.stop()
    with served(pages_of([query.checkpoint])) as found:
        newest, oldest = links(found.get(source_path(found) + "/batches").text, "/batch?")
        assert said in text_of(found.get(oldest).text)
        assert none in text_of(found.get(newest).text)
        assert said not in text_of(found.get().text)


def test_an_error_links_to_its_section_of_the_runbook_which_the_page_has(page: Served) -> None:
    where = re.search(r'href="(/runbook#splitreaderror)"', page.get("/").text)
    assert where is not None
    runbook = page.get("/runbook").text
    assert '<h2 id="splitreaderror">SplitReadError</h2>' in runbook
    assert "The way past a file that cannot be read: restart the query with" in text_of(runbook)
    kept = set(re.findall(r'href="([^"]*)"', runbook.partition("<main>")[2]))
    sections = set(re.findall(r'id="([^"]+)"', runbook))
    assert {link for link in kept if link[1:] not in sections} == set(), "no links to what is not here"
