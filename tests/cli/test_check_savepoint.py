"""``flip27 check`` of the savepoint that a query is to start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from flip27_source import savepoints
from flip27_source.cli.check.command import SourceCheck
from flip27_source.source_checks import Status
from tests.cli.command_line import two_batches


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        ({}, Status.OK, "checkpoint 2 of files can be restored"),
        ({"savepointClaim": "claim"}, Status.OK, "can be restored"),
        ({"savepoint": "{root}/nowhere"}, Status.FAILED, "/nowhere"),
        ({"uid": "other"}, Status.FAILED, "does not match source other: uid: was 'files', is 'other'"),
        ({"enumerator": "sequence", "reader": "sequence"}, Status.FAILED, "; enumerator: was 'files'"),
        ({"uid": "other", "allowNonRestoredState": "true"}, Status.WARNING, "starts from the beginning"),
    ],
)
def test_a_savepoint_is_checked_as_a_start_does(
    options: dict[str, str], status: Status, said: str, tmp_path: Path
) -> None:
    state = two_batches(tmp_path).checkpoint / "flip27"
    saved = savepoints.create(state=str(state), to=str(tmp_path / "saved")).directory
    given = {"enumerator": "files", "reader": "text", "savepoint": saved, "stateLocation": str(state)}
    given |= {name: value.format(root=tmp_path) for name, value in options.items()}
    if given["enumerator"] == "files":
        given["path"] = str(tmp_path / "landing")
    (finding,) = [one for one in SourceCheck(given, None, None).findings() if one.check == "savepoint"]
    assert (finding.status, said in finding.found) == (status, True), finding
    assert (finding.remedy is None) is (status is Status.OK)


def test_a_damaged_savepoint_fails_and_one_that_another_query_owns_cannot_be_claimed(tmp_path: Path) -> None:
    state = two_batches(tmp_path).checkpoint / "flip27"
    saved = Path(savepoints.create(state=str(state), to=str(tmp_path / "saved")).directory)

    def found(**options: str) -> str:
        given = {"enumerator": "files", "reader": "text", "savepoint": str(saved), "path": str(tmp_path)}
        findings = list(SourceCheck({**given, **options}, None, None).findings())
        (finding,) = [one for one in findings if one.check == "savepoint"]
        assert finding.status is Status.FAILED
        return finding.found

    assert "where the claim is stored, is not set" in found(savepointClaim="claim")
    (saved / "_metadata").write_text("{")
    assert str(saved) in found()
