"""Edits on the page: forms, the dry run, the confirmation, and what becomes of the request."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from flip27_source.cli.commands import FileSystem
from flip27_source.cli.state.rows import Place, StoredState
from flip27_source.coordination.edit_values import EditOperation
from flip27_source.errors import StateLocationError
from flip27_source.snapshots.locations import find_lineages
from flip27_source.snapshots.store import LocalStore
from tests.cli.command_line import flip27
from tests.deadline import until
from tests.edits.edited import Edited, add_files, files
from tests.edits.partitions import Looked, Numbers, Partition, Partitions, partitions, read
from tests.s3_server import S3Bucket
from tests.snapshots.spark_logs import FileQuery
from tests.ui.editing import Editor, boxes, field
from tests.ui.queries import HOSTILE, DiskQuery, hostile_query
from tests.ui.served import pages_of, served
from tests.ui.test_pages import GOLDEN, links, text_of


@contextmanager
def editor(*places: Path | Place) -> Iterator[Editor]:
    with served(pages_of(places), allow_edits=True) as site:
        yield Editor(site)


def ids(source: Edited, letters: str) -> list[str]:
    folder = Path(source.state).parent / "in"
    return [json.dumps(str(folder / letter)) for letter in letters]


def test_an_edit_is_shown_confirmed_and_followed_until_it_is_applied(source: Edited) -> None:
    with editor(Path(source.state)) as page:
        shown = page.dry_run("skip", which="ticked", split=ids(source, "df"))
        assert "as of checkpoint 1; nothing was changed" in shown.text
        assert shown.text.count("waiting: held by the enumerator") == 2
        assert "is never read" in shown.text
        assert source.request_files() == []
        assert shown.word == "skip 2"
        text = text_of(page.site.get(shown.confirm()).text)
        assert "waiting : the query applies it when it starts again" in text  # its clock stands still
        assert len(source.request_files()) == 1
        assert source.batches() == [["c", "e"]]
        assert "skip" in page.edits()
        assert "tester a test applied in checkpoint 2 : 2 splits changed" in page.edits()


def test_a_dry_run_shows_what_the_command_shows(source: Edited) -> None:
    said = flip27("edit", "replay", "--state", source.state, "--glob", "*", "--why", "a test", "--json").data
    with editor(Path(source.state)) as page:
        shown = page.dry_run("replay", which="all")
    for change in said["changes"]:
        assert (
            f"{change['split_id']} {change['checkpoint_id']} {change['now']} {change['then']}" in shown.text
        )
    assert said["changes"]
    assert all(note in shown.text for note in said["notes"])


def test_only_the_text_that_is_shown_confirms_a_dry_run(source: Edited) -> None:
    with editor(Path(source.state)) as page:
        shown = page.dry_run("skip", which="all")
        for word in ("", "yes", "skip 3", "skip 40", "skip"):
            at = shown.confirm(word)
            assert "That was not the text. Nothing was submitted." in text_of(page.site.get(at).text)
        assert source.request_files() == []
        shown.confirm("  SKIP   4 ")
        assert len(source.request_files()) == 1


def test_a_dry_run_leads_back_to_its_form_with_what_was_typed(source: Edited) -> None:
    with editor(Path(source.state)) as page:
        shown = page.dry_run("replay", which="matching", glob="*/[a]", why="because")
        again = page.site.get(f"{page.path}/edit?again={shown.url.partition('id=')[2]}").text
        assert f'name="again" value="{shown.url.partition("id=")[2]}"' in shown.page
    assert 'value="*/[a]"' in again
    assert 'value="because"' in again


def test_confirming_again_submits_nothing_again(source: Edited) -> None:
    with editor(Path(source.state)) as page:
        shown = page.dry_run("replay", which="all")
        (first, again) = (shown.confirm(), shown.confirm())
        assert first == again
        assert len(source.request_files()) == 1
        assert source.batch() == ["a", "b"]
        source.batches()
        assert source.request_files() == []
        assert shown.confirm() == first
        assert source.request_files() == []
        assert source.batches() == []
        assert "It was submitted" in text_of(page.site.get(shown.url).text)


@pytest.mark.parametrize("batches", [0, 1, 4])
@pytest.mark.parametrize("ahead_s", [0, 3600])
def test_an_edit_of_which_the_answer_of_the_store_was_lost_is_submitted_once(
    ahead_s: int, batches: int, source: Edited, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, now_ns = LocalStore.create, time.time_ns

    def loses_the_answer(store: LocalStore, name: str, data: bytes) -> bool:
        create(store, name, data)
        raise StateLocationError("the answer was lost")

    with monkeypatch.context() as other:  # whose clock is ahead, so that the times of later edits follow it
        other.setattr(time, "time_ns", lambda: now_ns() + ahead_s * 10**9)
        source.ask("skip", splits=[json.loads(name) for name in ids(source, "f")])
    with editor(Path(source.state)) as page:
        shown = page.dry_run("replay", which="ticked", split=ids(source, "a"))
        with monkeypatch.context() as failing:
            failing.setattr(LocalStore, "create", loses_the_answer)
            answer = page.post("confirm", {"id": field(shown.page, "id"), "word": shown.word})
            assert "This was not done" in answer.text
        rows = [row for _ in range(batches) for row in source.batch() or ()]
        assert "/edits?sent=" in shown.confirm()
        rows += [row for batch in source.batches() for row in batch]
    assert sorted(rows) == ["a", "c", "d", "e"]


def test_a_split_whose_shift_was_submitted_is_not_shifted_again_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = partitions(tmp_path)
    create = LocalStore.create

    def until_full(store: LocalStore, name: str, data: bytes) -> bool:
        if source.request_files():
            raise StateLocationError("no space is left")
        return create(store, name, data)

    with editor(Path(source.state)) as page:
        shown = page.dry_run("set-position", which="all", to="-3", **{'to "orders/2"': "+5"})
        confirmed = {"id": field(shown.page, "id"), "word": shown.word}
        with monkeypatch.context() as failing:
            failing.setattr(LocalStore, "create", until_full)
            answer = page.post("confirm", confirmed)
            assert (
                "1 of 2 edits were submitted and wait; the next one failed: no space is left" in answer.text
            )
        source.ask("set-position", splits=["orders/2"], position={"next": 50})
        answer = page.post("confirm", confirmed)
        assert "1 of 2 edits were submitted; of the others: another edit was submitted" in answer.text
    assert read(source) == {"orders/0": [7, 16], "orders/1": [7, 16], "orders/2": [50, 59]}
    source.engine.stop()


def test_many_who_confirm_at_once_submit_one_request(source: Edited) -> None:
    with editor(Path(source.state)) as page, ThreadPoolExecutor() as threads:
        shown = page.dry_run("skip", which="all")
        assert len(set(threads.map(lambda _: shown.confirm(), range(8)))) == 1
    assert len(source.request_files()) == 1


def test_hostile_words_of_an_author_are_only_words(source: Edited) -> None:
    words = "<script>alert(1)</script>\x1b[31m\u202e{{7*7}}\0"
    with editor(Path(source.state)) as page:
        page.dry_run("skip", which="all", why=words, who=words).confirm()
        waiting = page.site.get(f"{page.path}/edits").text
        source.batch()
        applied = page.site.get(f"{page.path}/edits").text
        for text in (waiting, applied):
            assert text.count("<script") == 1  # that of the page
            assert not {"\x1b", "\u202e", "\0"} & set(text)
            assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 2
            assert "49" not in text_of(text).partition("Requests")[2]


def test_an_edit_that_would_do_something_else_by_now_is_shown_again(source: Edited) -> None:
    with editor(Path(source.state)) as page:
        shown = page.dry_run("skip", which="all")
        source.batch()
        at = shown.confirm()
        text = text_of(page.site.get(at).text)
        assert "Nothing was submitted. Since the dry run that you have confirmed this is different" in text
        assert "there is no split that waits to be read" in text
        assert "as of checkpoint 2; nothing was changed" in text
        assert "skip 2" in text
        assert source.request_files() == []
        source.batch()  # now there is nothing left to skip
        text = text_of(page.site.get(page.sent("confirm", id=at.partition("id=")[2], word="skip 2")).text)
        assert "Nothing was submitted" in text
        assert "Not possible: there is no split that waits to be read" in text
        assert source.request_files() == []


def test_what_was_typed_is_still_there_if_a_dry_run_is_refused(source: Edited) -> None:
    with editor(Path(source.state)) as page:
        at = page.sent(
            "dry-run", operation="replay", which="matching", glob="*/<b>", since="yesterday", why="<i>why</i>"
        )
        refused = page.site.get(at).text
    assert "Not possible: since: 'yesterday': a time is expected" in text_of(refused)
    assert 'value="*/&lt;b&gt;"' in refused
    assert 'value="&lt;i&gt;why&lt;/i&gt;"' in refused


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"which": "ticked"}, "no split is ticked"),
        ({"which": "ticked", "split": ["nonsense", "7", "[" * 9999]}, "no split is ticked"),
        ({"which": "ticked", "split": '"nothing"'}, "that a retained batch has read: nothing"),
        ({"which": "matching"}, "no name is given"),
        ({"which": "all", "why": " "}, "an edit needs a reason"),
        ({"which": "all", "why": "x" * 20_000}, "the edit is invalid"),
        ({"which": "all", "since": "1999-01-01"}, "there is no split that a retained batch has read"),
    ],
)
def test_a_form_that_is_not_complete_is_refused_with_the_reason(
    fields: dict[str, str | list[str]], said: str, source: Edited
) -> None:
    with editor(Path(source.state)) as page:
        shown = page.dry_run("replay", **fields)
        if "is invalid" in said:
            answer = page.post("confirm", {"id": shown.url.partition("id=")[2], "word": shown.word})
            assert (answer.status, said in text_of(answer.text)) == (500, True)
        else:
            assert said in shown.text
    assert source.request_files() == []


def test_times_without_a_zone_are_utc_as_all_times_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = files(tmp_path, "abcdef")
    source.engine.now_ms = 1_767_434_400_000  # 2026-01-03T10:00Z
    for _ in range(3):
        source.batch()
        source.engine.now_ms += 3_600_000
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        with editor(Path(source.state)) as page:
            for zone in ("", "Z"):
                shown = page.dry_run("replay", which="all", since=f"2026-01-03T11:00{zone}")
                assert shown.word == "replay 4"
                assert "glob *; since 2026-01-03T11:00:00+00:00" in shown.text
            assert page.dry_run("rewind", time="2026-01-03 11:30").word == "rewind to 2"
    finally:
        monkeypatch.undo()
        time.tzset()
    source.engine.stop()


def test_a_source_is_rewound_to_a_checkpoint_that_is_chosen(source: Edited) -> None:
    source.batches()
    with editor(Path(source.state)) as page:
        assert text_of(page.form("rewind")).count("checkpoint 1, ") == 1
        shown = page.dry_run("rewind", checkpoint="1")
        assert "the source goes back from checkpoint 3 to 1" in shown.text
        assert shown.word == "rewind to 1"
        shown.confirm()
    assert source.batches() == [["c", "d"], ["e", "f"]]


def test_quarantined_files_with_hostile_names_are_retried_and_dropped_by_buttons(spoiled: DiskQuery) -> None:
    with editor(spoiled.checkpoint) as page:
        listed = page.site.get(f"{page.path}/quarantine").text
        assert listed.count("Retry ...") == listed.count("Drop ...") == 3
        assert "flip27 edit" not in listed
        values = boxes(page.form("quarantine retry"))
        assert sorted(map(json.loads, values)) == sorted(
            str(spoiled.root / "landing" / name).replace("\udcff", "\0ff") for name in HOSTILE[::2]
        )
        one = page.form("quarantine drop", split=values[0])
        assert one.count(" checked") == 2  # the radio button and the split
        page.dry_run("quarantine drop", which="ticked", split=values[:1]).confirm()
        page.dry_run("quarantine retry", which="ticked", split=values[1:]).confirm()
        spoiled.batch()
        assert page.edits().count("applied in checkpoint 3") == 2
        text = page.site.get(f"{page.path}/edits").text
        assert "<img" not in text
        assert "\x1b" not in text


@pytest.mark.parametrize("name", HOSTILE)
def test_every_hostile_name_arrives_as_it_is(name: str, spoiled: DiskQuery) -> None:
    split_id = str(spoiled.root / "landing" / name).replace("\udcff", "\0ff")
    with editor(spoiled.checkpoint) as page:
        operation = "quarantine drop" if name in HOSTILE[::2] else "replay"
        page.dry_run(operation, which="ticked", split=json.dumps(split_id)).confirm()
    (request,) = flip27("edit", "list", "--state", spoiled.checkpoint, "--json").data
    chosen = request["request"]["split_ids"] or next(iter(request["request"]["plans"].values()))
    assert chosen == [split_id]


def test_partitions_move_by_offsets_shifts_words_and_times_at_once(tmp_path: Path) -> None:
    source = partitions(tmp_path)
    with editor(Path(source.state)) as page:
        form = page.form("set-position")
        assert [json.loads(value) for value in boxes(form)] == ["orders/0", "orders/1", "orders/2"]
        assert text_of(form).count("next=10; ends at 90") == 3
        shown = page.dry_run(
            "set-position",
            which="all",
            to="-3",
            **{'to "orders/1"': "40", 'to "orders/2"': "1970-01-01T00:01:10Z"},
        )
        assert "continues at {" in shown.text
        assert "rows read again: 3" in shown.text
        assert "rows skipped: 30" in shown.text
        assert "these are 3 edits, one for each new position" in shown.text
        assert shown.word == "set-position 3"
        text = text_of(page.site.get(shown.confirm()).text)
        assert text.count("Submitted, ") == 3
        assert len(source.request_files()) == 3
        assert read(source) == {"orders/0": [7, 16], "orders/1": [40, 49], "orders/2": [70, 79]}
        assert page.edits().count("applied in checkpoint 2") == 3


def test_the_form_for_positions_asks_the_source_where_it_begins_and_ends(tmp_path: Path) -> None:
    source = partitions(tmp_path, enumerator=f"{Looked.__module__}:{Looked.__name__}")
    with editor(Path(source.state)) as page:
        form = page.form("set-position")
        assert "/ask" not in form
        assert "if flip27 ui was started with --look" in text_of(form)
    given = {"reader": f"{Numbers.__module__}:{Numbers.__name__}"}
    with served(pages_of([Path(source.state)], looks_with=given), allow_edits=True) as site:
        page = Editor(site)
        form = page.form("set-position")
        assert "begins at" not in form
        answer = site.get(f"{page.path}/ask?token={field(form, 'token')}&positions=1")
        assert answer.headers["location"] == f"{page.path}/edit?operation=set-position"
        until(lambda: "begins at 3" in site.get(answer.headers["location"]).text)
    source.engine.stop()


def test_the_url_of_many_edits_is_as_short_as_that_of_a_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [Partition(split_id=f"orders/{number}", next=number) for number in range(30)]
    monkeypatch.setattr(Partitions, "splits", lambda _: many)
    source = partitions(tmp_path)
    with editor(Path(source.state)) as page:
        at = page.dry_run("set-position", which="all", to="-1").confirm()
        assert len(source.request_files()) == 30
        assert len(at) < 200
        text = text_of(page.site.get(at).text)
        assert text.count("Submitted, ") == 10
        assert "And more, below." in text
    source.engine.stop()


@pytest.mark.parametrize(
    ("to", "first"), [("earliest", 0), ("latest", None), ("+15", 25), ('{"next": 80}', 80)]
)
def test_chosen_partitions_move_while_the_query_reads_on(to: str, first: int | None, tmp_path: Path) -> None:
    source = partitions(tmp_path)
    with editor(Path(source.state)) as page:
        shown = page.dry_run("set-position", which="matching", glob="orders/[01]", to=to)
        source.batch()
        assert "/edits?sent=" in shown.confirm()
    found = read(source)
    assert found.pop("orders/2") == [20, 29]
    assert found == ({} if first is None else {f"orders/{n}": [first, min(first + 9, 89)] for n in (0, 1)})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"which": "all"}, "orders/0 has no new position"),
        ({"which": "ticked", "to": "5"}, "no split is chosen"),
        ({"which": "all", "to": "soon"}, "'soon' is no position"),
        ({"which": "all", "to": "+"}, "'+' is no position"),
        ({"which": "all", "to": "1" * 5000}, "is no position"),
        ({"which": "all", "to": '{"place": 5}'}, "has no position field place"),
        ({"which": "all", "to": '{"next": "five"}'}, "is not a valid position"),
        ({"which": "all", "to": "10"}, "set-position would change nothing"),
        (
            {"which": "ticked", "split": '"orders/0"', 'to "orders/1"': "5"},
            "orders/1 has a position and is not",
        ),
    ],
)
def test_a_position_that_is_not_possible_is_refused(
    fields: dict[str, str], said: str, tmp_path: Path
) -> None:
    source = partitions(tmp_path)
    with editor(Path(source.state)) as page:
        assert said in page.dry_run("set-position", **fields).text
    assert source.request_files() == []


def test_a_request_that_waits_is_withdrawn_and_one_that_is_gone_says_so(source: Edited) -> None:
    with editor(Path(source.state)) as page:
        at = page.dry_run("skip", which="all").confirm()
        (file,) = source.request_files()
        answer = page.site.get(page.sent("withdraw", request=file.stem)).text
        assert f"withdrawn: {file.stem}" in text_of(answer)
        assert source.request_files() == []
        answer = page.site.get(page.sent("withdraw", request=file.stem)).text
        assert "there is no request" in text_of(answer)
        assert "None that waits" in text_of(page.site.get(at).text)
    assert source.batches() == [["c", "d"], ["e", "f"]]


def test_a_state_on_s3_is_edited_with_the_options_of_its_place(tmp_path: Path, s3_bucket: S3Bucket) -> None:
    source = files(tmp_path, "abcdef", bucket=s3_bucket)
    source.batch()
    words = [f"{name}={value}" for name, value in s3_bucket.storage_options.items()]
    place = Place(location=source.state, stored=StoredState(files=FileSystem(storage=words)))
    with editor(place) as page:
        page.dry_run("skip", which="matching", glob="*/[cd]").confirm()
        assert source.batches() == [["e", "f"]]
        assert "applied in checkpoint 2 : 2 splits changed" in page.edits()
        at = page.sent("savepoint", to=f"s3://{s3_bucket.name}/saved", once="a")
        until(lambda: "taken :" in text_of(page.site.get(at).text))
        assert "readable" in text_of(page.site.get(at).text)


def test_a_query_whose_state_is_not_in_its_checkpoint_is_edited(tmp_path: Path) -> None:
    query = DiskQuery.new(tmp_path, stateLocation=str(tmp_path / "state"))
    query.land("a.parquet", "b.parquet")
    query.batch()
    stored = StoredState(state_locations=[str(tmp_path / "state")])
    with editor(Place(location=str(query.checkpoint), stored=stored)) as page:
        page.dry_run("replay", which="all").confirm()
        query.batch()
        assert "applied in checkpoint 2 : 2 splits changed" in page.edits()
        at = page.sent("savepoint", to=str(tmp_path / "saved"), once="a")
        until(lambda: "taken :" in text_of(page.site.get(at).text))
        assert "checkpoint 2, the state after batch 1; a copy" in text_of(page.site.get(at).text)
    query.engine.stop()


def test_a_refused_edit_is_shown_with_its_reason(source: Edited) -> None:
    with editor(Path(source.state)) as page:
        page.dry_run("forget", which="all").confirm()
        source.batch()
        assert "applied in checkpoint" in page.edits()
        page.dry_run("rewind", checkpoint="1").confirm()
        (document,) = Path(source.state).glob("*/checkpoints/1-*")
        document.unlink()
        source.batch()
        assert "refused in checkpoint 3" in page.edits()


def test_a_damaged_request_is_shown_and_can_be_deleted(source: Edited) -> None:
    with editor(Path(source.state)) as page:
        page.dry_run("skip", which="all").confirm()
        (file,) = source.request_files()
        file.write_bytes(b"<script>alert(1)</script>")
        assert "failed" in page.edits()
        assert "<script>alert" not in page.site.get(f"{page.path}/edits").text
        page.sent("withdraw", request=file.stem)
        assert source.request_files() == []


def test_a_savepoint_is_taken_by_a_button_and_listed_with_its_claim(tmp_path: Path) -> None:
    query = hostile_query(tmp_path / "<b>query")
    query.engine.stop()
    saved = tmp_path / "saved"
    with editor(query.checkpoint) as page:
        once = "a-form"
        at = page.sent("savepoint", to=str(saved), once=once)
        assert page.sent("savepoint", to=str(saved), once=once) == at
        until(lambda: "taken :" in text_of(page.site.get(at).text))
        (made,) = saved.iterdir()
        assert f"{made} readable" in text_of(page.site.get(at).text)
        assert text_of(page.site.get(at).text).count("taken :") == 1
        assert "nobody" in text_of(page.site.get(at).text)
        assert "<b>query" not in page.site.get(at).text


def test_a_savepoint_that_cannot_be_taken_says_why(source: Edited, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with editor(Path(source.state)) as page:
        at = page.sent("savepoint", to=str(tmp_path / "file"), once="a")
        until(lambda: "not taken :" in text_of(page.site.get(at).text))
        answer = page.post("savepoint", {"to": "", "once": "b"})
        assert "the target is empty" in text_of(answer.text)


def test_a_password_in_the_place_of_a_savepoint_is_refused_and_shown_nowhere(source: Edited) -> None:
    with editor(Path(source.state)) as page:
        answer = page.post("savepoint", {"to": "ftp://user:hunter2@host/saved", "once": "a"})
        assert "contains a user name or password" in text_of(answer.text)
        listed = page.site.get(f"{page.path}/savepoints?to=ftp://user:hunter2@host/saved")
        assert "hunter2" not in answer.text + listed.text


def test_edits_begin_at_the_page_of_a_split_and_of_a_batch(source: Edited) -> None:
    source.batch()
    with editor(Path(source.state)) as page:
        (waiting,) = (at for at in links(page.site.get(f"{page.path}/splits?name=/e").text, "/split?"))
        (read_before,) = (at for at in links(page.site.get(f"{page.path}/splits?name=/a").text, "/split?"))
        assert 'value="skip"' in page.site.get(waiting).text
        assert 'value="replay"' in page.site.get(read_before).text
        (first,) = (at for at in links(page.site.get(f"{page.path}/batches").text, "/batch?") if "=1-" in at)
        assert "rewind to here" in page.site.get(first).text
        form = page.form("rewind", checkpoint="1")
        assert '<option value="1" selected>' in form


def test_without_edits_the_pages_do_not_exist(source: Edited) -> None:
    with served(pages_of([Path(source.state)])) as site:
        page = Editor(site)
        overview = site.get(f"{page.path}/batches").text
        assert links(overview, "/edits") + links(overview, "/savepoints") == []
        for view in ("edits", "edit", "plan", "savepoints", "dry-run", "confirm"):
            assert site.get(f"{page.path}/{view}").status == 404
        for action in ("dry-run", "confirm", "withdraw", "savepoint", "withdraw-savepoint"):
            answer = site.ask("POST", f"{page.path}/{action}", {"Origin": site.url}, "form=")
            assert answer.status == 405


def test_a_report_has_no_forms_even_if_edits_are_allowed(spoiled: DiskQuery, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    assert flip27("ui", "--state", spoiled.checkpoint, "--allow-edits", "--export", file).code == 0
    assert "<form" not in file.read_text()


def test_a_split_whose_name_contains_a_secret_cannot_be_ticked_and_is_in_no_form(source: Edited) -> None:
    secret = "/in/c"
    with served(
        pages_of([Path(source.state)], lambda text: text.replace(secret, "***")), allow_edits=True
    ) as site:
        form = Editor(site).form("skip")
    assert secret not in form
    assert len(boxes(form)) == 3


def test_a_secret_that_is_a_word_of_the_page_or_part_of_a_name_of_a_source_breaks_no_link_or_form(
    source: Edited,
) -> None:
    (lineage,) = find_lineages(source.state, {})
    words = re.compile("|".join((re.escape(lineage.name[:-6]), "replay", "[0-9a-f]{3}")))
    with served(
        pages_of([Path(source.state)], lambda text: words.sub("***", text)), allow_edits=True
    ) as site:
        page = Editor(site)
        at = page.sent("dry-run", operation="replay", which="all", why="a test")
        for view in (
            "batches",
            "splits",
            "progress",
            "checkpoints",
            "edits",
            "savepoints",
            "edit?operation=replay",
        ):
            text = site.get(f"{page.path}/{view}").text
            targets = re.findall('(?:href|action)="(/s/[^"]*)"', text)
            assert targets
            assert [to for to in targets if not to.startswith(f"{page.path}/")] == []
            assert {
                *re.findall('name="(?:operation|form|before|after)" value="([^"]*[*][^"]*)"', text)
            } == set()
        shown = site.get(at).text
        assert f'value="{at.partition("id=")[2]}"' in shown
        assert "replay 2" in text_of(shown)


def test_a_state_that_cannot_be_edited_says_so(tmp_path: Path) -> None:
    query = FileQuery(tmp_path, None)
    query.land("a.txt")
    query.batch()
    with editor(query.checkpoint) as page:
        for view in ("edits", "edit?operation=skip"):
            answer = page.site.get(f"{page.path}/{view}")
            assert "is inside Spark's offset log, where it cannot be edited" in text_of(answer.text)


@pytest.mark.parametrize(
    "query",
    ["", "?operation=", "?operation=drop+table", "?again=x", "?operation=skip&split=" + quote("[" * 3000)],
)
def test_whatever_a_url_of_a_form_asks_for_is_answered_without_a_fault(query: str, source: Edited) -> None:
    with editor(Path(source.state)) as page:
        assert page.site.get(f"{page.path}/edit{query}").status in (200, 404)
        assert page.site.get(f"{page.path}/plan{query}").status == 404
        assert page.site.get(f"{page.path}/edits?sent=x,y,&said=1").status == 200


def test_a_file_that_came_after_the_dry_run_is_not_part_of_the_edit(source: Edited) -> None:
    with editor(Path(source.state)) as page:
        source.batches()
        shown = page.dry_run("replay", which="all")
        add_files(Path(source.state).parent, "gh")
        source.batches()
        shown.confirm()
    assert sorted(name for batch in source.batches() for name in batch) == list("abcdef")


@pytest.mark.parametrize("checkpoint", GOLDEN, ids=lambda at: "-".join(at.parts[-3:-1]))
def test_every_form_of_every_source_and_of_older_states_is_answered(checkpoint: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in checkpoint.rglob("*")}
    with editor(checkpoint) as page:
        outcomes = set()
        for operation in EditOperation:
            assert page.site.get(f"{page.path}/edit?operation={quote(operation)}").status == 200
            fields = {"which": "all", "checkpoint": "1"} if operation == "rewind" else {"which": "all"}
            shown = page.dry_run(operation, to='{"next": 1}', **fields)
            assert shown.text.count("Not possible: ") + shown.text.count("To submit it, type") == 1, (
                shown.text
            )
            outcomes.add("/plan?" in shown.url)
    assert True in outcomes
    assert {file: file.stat().st_mtime_ns for file in checkpoint.rglob("*")} == before
