"""What ``flip27 check`` finds about an API, on the driver and on executors."""

from __future__ import annotations

import pytest

from flip27_source.cli.check.command import SourceCheck
from flip27_source.cli.check.on_executor import ExecutorTask, reach
from flip27_source.source_checks import Finding, Status
from tests.http_api import Fails, HttpApi, Says
from tests.raw_server import raw_server, says
from tests.readers.http_api.reading import KINDS

SECRET = "wonderland-of-secrets"


def options_of(url: str, **options: str) -> dict[str, str]:
    return {"enumerator": "http", "path": url} | options


def checked(options: dict[str, str]) -> Finding:
    """The finding about the API; an executor comes to the same."""
    *_, finding = SourceCheck(options, None, None).findings()
    (on_executor,) = (
        item for item in reach(ExecutorTask(options=options).on("1")) if item["check"] == "data"
    )
    assert on_executor["status"] == finding.status
    assert finding.status is not Status.FAILED or finding.found in on_executor["found"]
    return finding


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"since_without_ids"}))
def test_one_request_finds_the_records_of_the_first_page(api: HttpApi, kind: str) -> None:
    finding = checked(options_of(f"{api.url}/{kind}", **KINDS[kind]))
    assert (finding.check, finding.status) == ("endpoint", Status.OK)
    count = 6 if kind == "none" else 4
    assert finding.found == f"GET {api.url}/{kind} is answered: {count} records on the first page"
    assert len(api.requests) == 2


def test_an_api_without_records_passes_and_the_next_page_is_not_requested(api: HttpApi) -> None:
    api.records = []
    found = checked(options_of(f"{api.url}/feed", **KINDS["feed"])).found
    assert found == f"GET {api.url}/feed is answered: 0 records on the first page"
    assert len(api.requests) == 2


def test_the_first_of_several_endpoints_is_asked(api: HttpApi) -> None:
    found = checked(options_of(api.url, endpoints="none/a, none/b")).found
    assert found.startswith(
        f"GET {api.url}/none/a is answered (the first of 2 endpoints; the others were not"
    )


def test_what_a_query_would_fail_with_fails_without_a_retry_and_without_secrets(api: HttpApi) -> None:
    def failed(**options: str) -> str:
        finding = checked(options_of(f"{api.url}/none", authToken=SECRET, **options))
        assert finding.status is Status.FAILED
        assert SECRET not in f"{finding.found} {finding.remedy}"
        return finding.found

    api.misbehaves(*2 * [Fails(503, body=f"no {SECRET}")], *2 * [Says(b"<html>")])
    assert "failed 1 times: status 503 Service Unavailable, 'no ***'" in failed()
    assert "the answer is not JSON" in failed()
    assert "no list of records at recordsPath data" in failed(recordsPath="data")
    api.token = "another"
    assert "status 401 Unauthorized" in failed(authParam="token")
    assert len(api.requests) == 8


def test_a_server_that_does_not_answer_in_time_fails() -> None:
    with raw_server(lambda server, _: server.closed.wait(60) and None) as server:
        found = checked(options_of(server.url, requestTimeout="300 milliseconds")).found
    assert "no complete answer within 0.3 seconds" in found


def test_a_server_that_is_down_fails() -> None:
    with raw_server(says(b"")) as server:
        url = server.url
    assert f"GET {url} failed 1 times: the connection broke" in checked(options_of(url)).found
