"""Twice the rows take at most twice the work, for every option of every file reader; the work is counted.

The work of C code inside one call is not counted, except for the text that the two tokenizers read;
``make growth`` measures it.
"""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from flip27_source.readers.csv_lines.dialect import Dialect
from flip27_source.readers.csv_lines.quoted_fields import records_of
from flip27_source.readers.http_api.reader import HttpReader
from flip27_source.readers.json_lines.strings import JsonDialect
from flip27_source.readers.json_lines.values import JsonLineParser
from flip27_source.schemas.ddl import parse_columns
from tests.growth.cases import OPTIONS, READERS, Case, cases, options_of
from tests.growth.contents import CSV_DOCUMENTS, JSON_DOCUMENTS, JSON_SCHEMA
from tests.growth.counting import CountedBytes, CountedText, Looked, calls, grows_too_fast
from tests.http_api import http_api
from tests.readers.http_api.reading import KINDS, Share, read

pytestmark = pytest.mark.slow

ROWS = (60, 120, 240)


@pytest.mark.parametrize("reader", READERS)
def test_the_growth_is_measured_with_every_option_of_a_reader(reader: str) -> None:
    assert set(OPTIONS[reader]) == options_of(reader)


def mark_of(case: Case) -> list[pytest.MarkDecorator]:
    """No mark for ordinary contents and misfits; only ``make test-long`` measures the others."""
    content = case.name.rpartition(": ")[2]
    return [] if content in {"good lines", "misfits", "unknown fields", "one file"} else [pytest.mark.long]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=mark_of(case)) for case in cases() if not case.is_rare]
)
def test_work_grows_no_faster_than_the_rows(case: Case, tmp_path: Path) -> None:
    works = [case.work(tmp_path / str(times), times * case.least_rows) for times in (1, 2, 4)]
    works[0]()  # fills caches and runs imports, which must not be counted
    counts = [calls(work) for work in works]
    assert not grows_too_fast(*counts), counts


def test_quadratic_work_is_noticed_among_linear_work() -> None:
    def work(rows: int) -> int:
        return 100 * rows + rows * rows // 2

    assert grows_too_fast(*map(work, ROWS))
    assert not grows_too_fast(*(1_000 + 100 * rows for rows in ROWS))


DIALECTS: dict[str, dict[str, Any]] = {
    "default": {},
    "blanks that count for nothing": {"skips_leading": True, "skips_trailing": True},
    "up to the closing quote": {"unescaped_quotes": "STOP_AT_CLOSING_QUOTE"},
    "back to the delimiter": {"unescaped_quotes": "BACK_TO_DELIMITER"},
    "fields with stray quotes are null": {"unescaped_quotes": "SKIP_VALUE"},
    "doubled quotes": {"escape": '"'},
}


@pytest.mark.parametrize("content", CSV_DOCUMENTS)
@pytest.mark.parametrize("name", DIALECTS)
def test_a_csv_document_is_scanned_a_bounded_number_of_times(tmp_path: Path, name: str, content: str) -> None:
    looked = []
    for rows in ROWS:
        CSV_DOCUMENTS[content](tmp_path, rows)
        text = CountedText("".join(path.read_text("latin-1") for path in sorted(tmp_path.iterdir())))
        Looked.at = 0
        assert list(records_of(text, Dialect(**DIALECTS[name])))
        looked.append(Looked.at)
    assert looked[0] > 0
    assert not grows_too_fast(*looked), looked


@pytest.mark.parametrize("content", JSON_DOCUMENTS)
def test_a_json_document_is_scanned_a_bounded_number_of_times(tmp_path: Path, content: str) -> None:
    dialect = JsonDialect(
        comments=True, unquoted_names=True, leading_zeros=True, any_escape=True, control_characters=True
    )
    parser = JsonLineParser(parse_columns(JSON_SCHEMA), UTC, dialect=dialect)
    looked = []
    for rows in ROWS:
        JSON_DOCUMENTS[content](tmp_path, rows)
        lines = [CountedBytes(path.read_bytes()) for path in sorted(tmp_path.iterdir())]
        Looked.at = 0
        for line in lines:
            parser.parse(line)
        looked.append(Looked.at)
    assert looked[0] > 0
    assert not grows_too_fast(*looked), looked


@pytest.mark.parametrize("kind", ["misfits in every fortieth line", "words in every fortieth line"])
def test_json_lines_next_to_a_few_odd_lines_stay_fast_in_any_number(tmp_path: Path, kind: str) -> None:
    [case] = [case for case in cases() if case.name == f"json, mode=PERMISSIVE: {kind}"]
    works = [case.work(tmp_path / str(rows), rows) for rows in (1_000, 2_000, 4_000)]
    works[0]()
    counts = [calls(work) for work in works]
    assert not grows_too_fast(*counts), counts
    assert counts[-1] < 100 * 4_000


HTTP_USES: dict[str, list[tuple[str, dict[str, str]]]] = {
    "pagination": [(kind, {}) for kind in KINDS],
    "missingListIsEmpty": [("cursor", {"missingListIsEmpty": "true"})],
    "recordsPath": [("cursor", {})],
    "atEnd": [("page", {"atEnd": "finish"}), ("since", {"atEnd": "finish"})],
    "cursorPath": [("feed", {"emptyPageEnds": "true"})],
    "cursorParam": [("cursor", {"cursorParam": "cursor"})],
    "startCursor": [("cursor", {"startCursor": "after-0"})],
    "linkPath": [("body_link", {})],
    "emptyPageEnds": [("feed", {"emptyPageEnds": "true"})],
    "pageParam": [("page", {"pageParam": "page"})],
    "firstPage": [("page", {"firstPage": "1"})],
    "pageSizeParam": [("sized_page", {})],
    "pageSize": [("page", {"pageSize": "4"})],
    "sinceParam": [("since", {"sinceParam": "since"})],
    "sinceField": [("since", {})],
    "startSince": [("since", {"startSince": "2026-01-01T00:00:00Z"})],
    "idField": [("since", {"idField": "id"}), ("page", {"idField": "id"})],
    "checkRecords": [("page", {"checkRecords": "false"}), ("none", {"checkRecords": "false"})],
    "headers": [("page", {"headers": '{"X-A": "b"}'})],
    "authEnv": [("page", {"authEnv": "PATH"})],
    "authToken": [("page", {"authToken": "secret"})],
    "authHeader": [("page", {"authToken": "secret", "authHeader": "X-Key"})],
    "authScheme": [("page", {"authToken": "secret", "authScheme": "Token"})],
    "authParam": [("page", {"authToken": "secret", "authParam": "token"})],
    "httpRetries": [("page", {"httpRetries": "1"})],
    "maxBackoff": [("page", {"maxBackoff": "1s"})],
    "requestTimeout": [("page", {"requestTimeout": "9s"})],
    "maxResponseBytes": [("page", {"maxResponseBytes": "1mb"})],
    "mode": [("page", {"mode": "FAILFAST"})],
    "columnNameOfCorruptRecord": [("page", {"columnNameOfCorruptRecord": "bad"})],
    "timeZone": [("page", {"timeZone": "Asia/Tokyo"})],
}


def test_the_growth_is_measured_with_every_option_of_the_http_reader() -> None:
    assert set(HTTP_USES) == {option.name for option in HttpReader.options}


@pytest.mark.parametrize(
    ("option", "page_size"), [*((name, 4) for name in HTTP_USES), ("pagination", 10_000)]
)
def test_work_on_pages_grows_no_faster_than_the_records(option: str, page_size: int) -> None:
    for kind, options in HTTP_USES[option]:
        if "pageSize" in KINDS[kind]:
            options = {"pageSize": str(page_size)} | options
        counts = []
        with http_api() as api:
            for number in (4, 20, 40, 80):
                api.page_size = page_size
                api.records = [
                    {"id": n, "at": f"2026-01-01T00:{n // 120:02}:{n // 2 % 60:02}Z"} for n in range(number)
                ]
                found: list[Share] = []
                counts.append(calls(lambda: found.append(read(api, kind, **options))))  # noqa: B023 - called at once
                assert found[0].ids == list(range(number))
        assert not grows_too_fast(*counts[1:]), (kind, counts)
