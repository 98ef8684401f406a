"""Requests that cannot be fulfilled are refused when they are made or read, and never stop a query."""

from __future__ import annotations

import json
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import msgspec
import pytest
from fsspec.spec import AbstractFileSystem

from flip27_source import edits, savepoints
from flip27_source.cli.main import main
from flip27_source.coordination.checkpoints import CheckpointMetadata
from flip27_source.coordination.edit_values import EditOperation
from flip27_source.driver.requests import Requests
from flip27_source.enumerator import BoundedRange, Budget
from flip27_source.enumerator_mixins import ForgetsSplits
from flip27_source.errors import DataLossError, EditError, StateLocationError
from flip27_source.reader import SplitReader
from flip27_source.snapshots.request_mailbox import MOST_BYTES, Mailbox
from flip27_source.snapshots.sealed import seal
from flip27_source.snapshots.store import LocalStore
from tests.edits.edited import IDS, Edited, fed, files
from tests.savepoints.test_requests import made_in
from tests.toy_sources import FEEDS, EchoReader, Feed, items

NUL = "/tmp/a\0b"
LONELY = "/tmp/\ud800"
MORE_THAN_A_DRIVER_READS = ("x" * 1000,) * (MOST_BYTES // 1000)


@pytest.fixture
def query(tmp_path: Path) -> Edited:
    """A query that has read a and b and still has to read c to f, two in a batch."""
    found = fed(tmp_path)
    assert found.batch() == ["a", "b"]
    return found


def fed_by(folder: Path, names: str, enumerator: Any = Feed, reader: Any = EchoReader) -> Edited:
    """A query of such classes that has read its first batch of two splits."""
    FEEDS["edited"] = items(*names)
    options = {"feed": "edited", "maxFilesPerTrigger": "2"}
    query = Edited(folder, options, enumerator=enumerator, reader=reader, schema=IDS)
    query.batch()
    return query


def lineage_of(query: Edited) -> str:
    (folder,) = (path.name for path in Path(query.state).iterdir() if path.name != "schemas")
    return folder


def requests_of(query: Edited) -> Mailbox:
    return Mailbox(LocalStore(query.state), lineage_of(query))


def folder_of(query: Edited) -> Path:
    folder = Path(query.state) / lineage_of(query) / "requests"
    folder.mkdir(exist_ok=True)
    return folder


def planted(query: Edited, content: Any) -> str:
    """Write a request as another program or an older version of this library could have written it."""
    request_id = str(uuid.uuid4())
    if isinstance(content, dict):
        content = {"lineage": lineage_of(query), "request_id": request_id, "format": 1, **content}
        if content["kind"] == "edit":
            edit = {key: value for key, value in content.items() if key not in ("format", "kind")}
            content = {"format": 1, "kind": "edit", "edit": edit}
        content = seal("request", msgspec.Raw(json.dumps(content, separators=(",", ":")).encode()))
    (folder_of(query) / f"{request_id}.json").write_bytes(content)
    return request_id


def a_savepoint(to: str) -> dict[str, Any]:
    return {"kind": "savepoint", "target": to, "requested_ms": 1}


def an_edit(**changes: Any) -> dict[str, Any]:
    edit = {"operation": "replay", "who": "w", "why": "y", "requested_us": 1, "selected": "s", "plans": {}}
    return {"kind": "edit", **edit, **changes}


def check_it_continues(query: Edited) -> None:
    """Check that the query reads everything that is left, and what arrives after a restart, exactly once."""
    query.batches()
    query.engine.restart()
    query.engine.process_all_available()
    FEEDS["edited"] += items("y", "z")
    assert [row for rows in query.batches() for row in rows] == ["y", "z"]
    assert sorted(row[0] for row in query.engine.rows) == [*"abcdefyz"]


def failures_of(query: Edited) -> dict[str, str]:
    return {item.request_id: item.reason for item in requests_of(query).failed()}


# Requests that are refused when they are made


@pytest.mark.parametrize(
    ("to", "named"),
    [
        (NUL, "NUL"),
        (LONELY, "not Unicode"),
        ("", "empty"),
        ("/" + "x" * 5000, "5001 characters"),
        ("ftp://me:secret@host/saved", "ftp://host/saved contains a user name or password"),
    ],
)
def test_a_savepoint_with_an_impossible_target_is_refused_when_it_is_requested(
    query: Edited, to: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(StateLocationError, match=named):
        savepoints.request(state=query.state, to=to)
    assert main(["savepoint", "request", "--state", query.state, "--to", to]) == 1
    assert named in " ".join(capsys.readouterr().err.split())
    assert query.request_files() == []
    check_it_continues(query)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"why": "\ud800"}, "why is not Unicode"),
        ({"who": "w" * 10_001}, "who has 10001 characters"),
        ({"selected": "s" * 10_001}, "selected has 10001 characters"),
        ({"requested_us": -1}, "requested_us"),
        ({"requested_us": 10**30}, "requested_us"),
        ({"checkpoint": "1-../../x"}, "checkpoint"),
        ({"plans": {"1-0": ("a",)}}, "plans contains"),
        ({"plans": {f"1-{'0' * 32}": MORE_THAN_A_DRIVER_READS}}, "more than 67108864 bytes"),
        ({"split_ids": ("\ud800",)}, "split_ids"),
        ({"operation": EditOperation.SET_POSITION}, "position"),
        ({"position": {"next": 1}}, "position"),
        ({"operation": EditOperation.REWIND}, "checkpoint"),
        ({"operation": EditOperation.SET_POSITION, "position": {"next": float("nan")}}, "nan"),
        ({"operation": EditOperation.SET_POSITION, "position": {"next": "x" * 70_000}}, "position has"),
    ],
)
def test_an_invalid_edit_is_refused_when_it_is_submitted(
    query: Edited, changes: dict[str, Any], named: str
) -> None:
    plan = query.plan("replay", splits=["a"])
    with pytest.raises(EditError, match=named):
        edits.submit(replace(plan, request=replace(plan.request, **changes)))
    assert query.request_files() == []


# Requests that are refused when they are read


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (a_savepoint(NUL), "NUL"),
        (a_savepoint(""), "empty"),
        (a_savepoint("s3://me:secret@host/x"), "user name or password"),
        (a_savepoint("/" + "x" * 5000), "5001 characters"),
        (a_savepoint("/tmp/x") | {"requested_ms": 10**30}, "requested_ms"),
        (a_savepoint("/tmp/x") | {"target": 5}, "Expected `str`, got `int`"),
        (an_edit(who="w" * 20_000), "who has 20000 characters"),
        (
            an_edit(operation="set-position", split_ids=["c"], position={"split_id": deep(300)}),
            "deeper than 100",
        ),
        (an_edit(operation="explode"), "explode"),
        (an_edit(requested_us=-(10**30)), "requested_us"),
        (an_edit(plans={"x" * 100: ["a"]}), "plans contains"),
        (b'{"digest":"", "request":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "cannot be read"),
        (b"[" * 200_000, "cannot be read"),
        (b"\x00" * 1000, "cannot be read"),
        (b"", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b'{"digest":1,"request":{}}', "cannot be read"),
        (b'{"digest":"of another request","request":{}}', "cannot be read"),
        (b'{"digest":"cut off","request":{"kind"', "cannot be read"),
        (b'{"digest":1e999999,"request":{}}', "cannot be read"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_request_that_cannot_be_read_is_marked_as_failed_and_the_query_continues(
    query: Edited, content: Any, named: str
) -> None:
    request_id = planted(query, content)
    query.batch()
    failed = failures_of(query)
    assert list(failed) == [request_id]
    assert named in failed[request_id]
    (listed,) = edits.pending(state=query.state) or savepoints.pending(state=query.state)
    assert (listed.request_id, named in str(listed.error)) == (request_id, True)
    check_it_continues(query)
    assert "secret" not in str(failed)


def _sparse(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(1 << 30)


def _a_gigabyte_of_nested_json(path: Path) -> None:
    chunk = b"[" * (1 << 20)
    with open(path, "wb") as file:
        file.writelines(chunk for _ in range(1 << 10))


def _secret(path: Path) -> None:
    path.parent.parent.parent.parent.joinpath("secret").write_text("{'password': 'hunter2'}")
    path.symlink_to(path.parent.parent.parent.parent / "secret")


ODD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a FIFO": (os.mkfifo, "is a FIFO"),
    "a directory": (Path.mkdir, "is a directory"),
    "a link to a device": (lambda path: path.symlink_to("/dev/zero"), "is a device"),
    "a dangling link": (lambda path: path.symlink_to("nothing"), "cannot be found"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "symbolic links"),
    "a link to a file of somebody else": (_secret, "cannot be read"),
    "a file that cannot be read": (lambda path: path.symlink_to("/proc/self/mem"), "Input/output error"),
    "a gigabyte of zeros": (_sparse, "more than 67108864 bytes"),
    "a gigabyte of nested JSON": (_a_gigabyte_of_nested_json, "more than 67108864 bytes"),
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_files_among_the_requests_stop_neither_the_query_nor_other_requests(
    query: Edited, tmp_path: Path, kind: str
) -> None:
    make, named = ODD[kind]
    request_id = str(uuid.uuid4())
    make(folder_of(query) / f"{request_id}.json")
    good = savepoints.request(state=query.state, to=str(tmp_path / "saved"))
    query.batches()
    assert len(made_in(tmp_path / "saved")) == 1
    check_it_continues(query)
    failed = failures_of(query)
    assert list(failed) == [request_id]
    assert named in failed[request_id]
    assert "hunter2" not in failed[request_id]
    assert good.request_id not in failed
    assert os.path.lexists(folder_of(query) / f"{request_id}.json")


def test_a_request_folder_that_is_not_a_folder_does_not_stop_the_query(query: Edited) -> None:
    folder = folder_of(query)
    folder.rmdir()
    os.mkfifo(folder)
    check_it_continues(query)


def test_a_request_that_was_marked_as_failed_is_not_read_again(
    query: Edited, caplog: pytest.LogCaptureFixture
) -> None:
    planted(query, b"nonsense")
    with caplog.at_level(logging.WARNING, "flip27_source"):
        query.batches()
        query.engine.restart()
        query.batches()
    assert caplog.text.count("nonsense") + caplog.text.count("is marked as failed") == 1


def test_a_request_of_an_unknown_kind_is_left_for_newer_code_and_listed(query: Edited) -> None:
    request_id = planted(query, {"kind": "dance"})
    query.batch()
    assert failures_of(query) == {}
    (listed,) = edits.pending(state=query.state)
    assert (listed.request_id, "the unknown kind 'dance'" in str(listed.error)) == (request_id, True)
    check_it_continues(query)


# Savepoints whose target cannot be written


def _a_file(target: Path) -> str:
    target.write_text("no directory")
    return str(target)


def _below_a_file(target: Path) -> str:
    target.write_text("no directory")
    return str(target / "deeper")


TARGETS: dict[str, tuple[Callable[[Path], str], str]] = {
    "a file": (_a_file, "saved"),
    "below a file": (_below_a_file, "saved/deeper"),
    "a file system without room for a folder": (lambda _: "/proc/saved", "/proc/saved"),
    "an unknown protocol": (lambda _: "nosuch://bucket/saved", "nosuch"),
    "a protocol whose package is missing": (lambda _: "dropbox://bucket/saved", "dropbox"),
    "an unreachable host": (lambda _: "sftp://127.0.0.1:1/saved", "sftp://127.0.0.1:1/saved"),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_a_target_that_cannot_be_written_fails_the_savepoint_and_not_the_query(
    query: Edited, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    make, named = TARGETS[kind]
    bad = savepoints.request(state=query.state, to=make(tmp_path / "saved"))
    good = savepoints.request(state=query.state, to=str(tmp_path / "good"))
    query.batches()
    assert len(made_in(tmp_path / "good")) == 1
    assert list(failures_of(query)) == [bad.request_id]
    assert named in failures_of(query)[bad.request_id]
    assert "could not be taken" in caplog.text
    assert good.request_id not in failures_of(query)
    check_it_continues(query)
    assert list(tmp_path.glob("good/.*")) == []


class Sabotages(SplitReader[Any]):
    """Makes the target of the savepoint unusable while it reads; then writes to it if ``adds`` is set."""

    target: ClassVar[Path]
    adds: ClassVar[bool] = False

    def read(self, split: Any) -> Iterator[tuple[str]]:
        if self.context.is_savepoint:
            shutil.rmtree(self.target, ignore_errors=True)
            if not self.target.exists():
                self.target.write_text("no directory any more")
            if self.adds:
                with self.context.savepoint_stream("index.bin") as stream:
                    stream.write(b"x")
        yield (split.split_id,)


@pytest.mark.parametrize("adds", [False, True])
def test_a_target_that_is_lost_meanwhile_fails_the_savepoint_and_not_the_query(
    tmp_path: Path, adds: bool
) -> None:
    target = tmp_path / "saved"
    reader = type("Sabotages", (Sabotages,), {"target": target, "adds": adds})
    query = fed_by(tmp_path, "abcdef", reader=reader)
    asked = savepoints.request(state=query.state, to=str(target))
    assert query.batches() == [["c", "d"], ["e", "f"]]
    assert "saved" in failures_of(query)[asked.request_id]
    assert ("index.bin" in failures_of(query)[asked.request_id]) is adds
    check_it_continues(query)


def test_a_savepoint_is_not_finished_if_a_reader_could_not_add_its_files(tmp_path: Path) -> None:
    class AddsTooLate(Sabotages):
        def read(self, split: Any) -> Iterator[tuple[str]]:
            yield from super().read(split)
            if self.context.is_savepoint:
                self.target.unlink(missing_ok=True)  # usable again before the batch ends

    target = tmp_path / "saved"
    reader = type("AddsTooLate", (AddsTooLate,), {"target": target, "adds": True})
    query = fed_by(tmp_path, "abcd", reader=reader)
    asked = savepoints.request(state=query.state, to=str(target))
    query.batches()
    assert "index.bin" in failures_of(query)[asked.request_id]
    assert made_in(target) == []


def test_a_checkpoint_with_an_impossible_target_from_an_older_version_completes(query: Edited) -> None:
    """Before requests were checked, such a target got into the document, and every restart failed."""

    def next_checkpoint(_requests: Requests, checkpoint_id: int) -> CheckpointMetadata:
        return CheckpointMetadata(
            checkpoint_id=checkpoint_id, timestamp_ms=0, is_savepoint=True, target_directory=NUL
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Requests, "next_checkpoint", next_checkpoint)
        query.engine.trigger()
    query.engine.restart()
    check_it_continues(query)


# Edits that cannot be applied


def test_an_edit_that_fails_in_the_enumerator_is_refused_and_the_query_continues(tmp_path: Path) -> None:
    source = files(tmp_path, "abcd")
    source.batch()
    source.ask("skip", glob="*/d")
    kind: Any = source.engine.source.enumerator_type
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "without_splits", classmethod(lambda *_: 1 // 0))
        assert source.batch() == ["c", "d"]
    (edit,) = source.history(of_the_line=True)
    assert "ZeroDivisionError" in edit["refused"]
    assert source.batch() is None
    assert source.request_files() == []


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    split_id: str
    next: int | None = 0


class Counts(Feed):
    """One split that is cut into ranges of one up to 4; cutting it at 17 is an error."""

    split_type: ClassVar[Any] = Counting

    def handle_split_request(self, subtask_id: int) -> None:
        if not self.taken:
            self.context.assign_split(Counting(split_id="count"))  # type: ignore[arg-type]
            self.taken = 1

    def bound_split(self, split: Any, budget: Budget) -> Any:
        if split.next == 17:
            raise ValueError("17 cannot be cut")
        if split.next >= 4:
            return None
        return BoundedRange(read=split, rest=replace(split, next=split.next + 1))


def test_an_edit_after_which_planning_fails_is_refused_and_the_query_continues(tmp_path: Path) -> None:
    query = fed_by(tmp_path, "", enumerator=Counts)
    query.ask("set-position", splits=["count"], position={"next": 17})
    assert query.batch() == ["count"]
    (edit,) = query.history(of_the_line=True)
    assert "ValueError: 17 cannot be cut" in edit["refused"]
    assert edit["splits"] == 0
    query.engine.restart()
    query.batches()
    assert query.request_files() == []


class Expires(Feed):
    """Two splits whose first records have expired when :attr:`begins` grows."""

    split_type: ClassVar[Any] = Counting
    begins: ClassVar[int] = 0

    def handle_split_request(self, subtask_id: int) -> None:
        for name in ("a", "b") if not self.taken else ():
            self.context.assign_split(Counting(split_id=name))  # type: ignore[arg-type]
            self.taken += 1

    def bound_split(self, split: Any, budget: Budget) -> Any:
        if split.next < self.begins:
            raise DataLossError(f"{split.split_id} begins at {self.begins}")
        return BoundedRange(read=split, rest=replace(split, next=split.next + 1)) if split.next < 4 else None


def test_edits_that_repair_one_split_after_the_other_are_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = fed_by(tmp_path, "", enumerator=Expires)
    query.batch()
    query.engine.stop()
    monkeypatch.setattr(Expires, "begins", 3)
    for lost in ("a", "b"):
        query.engine.restart()
        with pytest.raises(DataLossError, match=f"{lost} begins at 3"):
            query.batch()
        query.ask("set-position", splits=[lost], position={"next": 3})
    query.engine.restart()
    assert query.batch() == ["a", "b"]
    assert [edit["refused"] for edit in query.history(of_the_line=True)] == [None, None]


def test_an_edit_whose_result_the_enumerator_cannot_start_with_is_refused(tmp_path: Path) -> None:
    class Picky(ForgetsSplits, Feed):
        def __init__(self, context: Any, options: Any, state: int | None = None) -> None:
            super().__init__(context, options, state)
            if state == -1:
                raise ValueError("-1 is not a valid start")

        @classmethod
        def forget_splits(cls, state: Any, split_ids: Any, *, busy: Any, options: Any) -> Any:
            return -1, {}

        found_again = forget_splits  # not called

    query = fed_by(tmp_path, "abcd", enumerator=Picky)
    query.ask("forget", splits=["a"])
    assert query.batches() == [["c", "d"]]
    (edit,) = query.history(of_the_line=True)
    assert "-1 is not a valid start" in edit["refused"]
    query.engine.restart()
    assert query.batch() is None


@pytest.mark.parametrize("state", [float("nan"), "text", object()])
def test_an_edit_whose_result_cannot_be_stored_is_refused(tmp_path: Path, state: Any) -> None:
    class Forgets(ForgetsSplits, Feed):
        @classmethod
        def forget_splits(cls, state_before: Any, split_ids: Any, *, busy: Any, options: Any) -> Any:
            return state, {}

        found_again = forget_splits  # not called

    query = fed_by(tmp_path, "abcd", enumerator=Forgets)
    query.ask("forget", splits=["a"])
    assert query.batches() == [["c", "d"]]
    (edit,) = query.history(of_the_line=True)
    assert "cannot be stored" in edit["refused"]


class Telltale(AbstractFileSystem):  # type: ignore[misc]
    """Puts all of its storage options into its errors, as some libraries do."""

    protocol = "telltale"

    def _refuse(self, path: str, *_: Any, **__: Any) -> Any:
        raise PermissionError(f"told by the server: {path} with {self.storage_options}")

    ls = info = cat_file = pipe_file = rm_file = makedirs = find = walk = _open = exists = _refuse


def test_the_stored_reason_of_a_failed_savepoint_contains_no_secret_of_the_storage_options(
    tmp_path: Path,
) -> None:
    fsspec.register_implementation("telltale", Telltale, clobber=True)
    query = fed(tmp_path, **{"storage.password": "hunter2"})
    query.batch()
    asked = savepoints.request(state=query.state, to="telltale://host/saved")
    query.batches()
    assert "***" in failures_of(query)[asked.request_id]
    assert not [path for path in Path(query.state).rglob("*.json") if b"hunter2" in path.read_bytes()]


# The outcomes of requests are listed


def test_failed_requests_are_listed_until_they_are_withdrawn(
    query: Edited, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no directory")
    target = str(tmp_path / "file")
    asked = savepoints.request(state=query.state, to=target)
    query.batches()
    assert main(["savepoint", "requests", "--state", query.state, "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["request_id"], listed["target"]) == (asked.request_id, target)
    assert "file" in listed["error"]
    assert main(["savepoint", "request", "--state", query.state, "--to", str(tmp_path / "saved")]) == 0
    said = capsys.readouterr()
    assert asked.request_id in said.err
    assert "failed" in said.err
    assert main(["savepoint", "withdraw", asked.request_id, "--state", query.state]) == 0
    capsys.readouterr()
    assert main(["savepoint", "requests", "--state", query.state, "--json"]) == 0
    (waiting,) = json.loads(capsys.readouterr().out)
    assert (waiting["request_id"], waiting["error"]) == (said.out.strip(), None)
    query.batches()
    assert savepoints.pending(state=query.state) == []


def test_a_failed_edit_is_listed_until_it_is_withdrawn(
    query: Edited, capsys: pytest.CaptureFixture[str]
) -> None:
    request_id = planted(query, an_edit(who="w" * 20_000))
    query.batch()
    assert main(["edit", "list", "--state", query.state, "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["request_id"] == request_id
    assert "who has 20000 characters" in listed["error"]
    edits.withdraw(request_id, state=query.state)
    assert edits.pending(state=query.state) == []
    assert query.request_files() == []


def test_only_the_newest_failures_are_kept(query: Edited) -> None:
    requests = requests_of(query)
    for number in range(120):
        requests.fail(str(uuid.uuid4()), kind="savepoint", asked="/x", reason=f"{number}", now_ms=number)
    assert [item.reason for item in requests.failed()] == [str(number) for number in range(20, 120)]
