"""Who may see the page, and what its headers forbid."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command_line import flip27, two_batches
from tests.ui.served import Served, pages_of, served

EVERYWHERE = "0.0.0.0"  # noqa: S104 - nothing is bound
TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return two_batches(tmp_path_factory.mktemp("query")).checkpoint


@pytest.fixture(scope="module")
def page(query: Path) -> Iterator[Served]:
    with served(pages_of([query])) as found:
        yield found


@pytest.fixture(scope="module")
def page_with_token(query: Path) -> Iterator[Served]:
    with served(pages_of([query]), token=TOKEN) as found:
        yield found


@pytest.mark.parametrize("host", ["localhost:4080", "127.0.0.1", "LOCALHOST", "[::1]:4080"])
def test_a_request_that_names_this_machine_is_answered(host: str, page: Served) -> None:
    assert page.get(Host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "", "[", "127.0.0.1:80.evil"]
)
def test_a_name_of_another_site_that_leads_here_is_refused(host: str, page: Served) -> None:
    answer = page.get(Host=host)
    assert answer.status in (400, 421)
    assert "files-" not in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_only_reading_is_allowed(method: str, page: Served) -> None:
    assert page.ask(method, "/", {}).status == 405
    assert page.ask(method, "/login", {}, "token=").status == 405


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/s/0/nothing/batches", "/static/style.css", "/static/live.js"]
)
def test_every_answer_forbids_scripts_from_elsewhere_frames_and_copies(path: str, page: Served) -> None:
    headers = page.get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "same-origin")
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path", ["/static/../command.py", "/static/%2e%2e/command.py", "/static/", "/s/0/a/b/c"]
)
def test_nothing_but_pages_and_their_two_files_is_served(path: str, page: Served) -> None:
    assert page.get(path).status == 404


def test_with_a_token_nothing_is_shown_without_it(page_with_token: Served) -> None:
    for headers in (
        {},
        {"Cookie": "flip27_ui=guess"},
        {"Authorization": "Bearer guess"},
        {"Authorization": ""},
    ):
        answer = page_with_token.get(**headers)
        assert answer.status == 401
        assert "files-" not in answer.text


@pytest.mark.parametrize("host", ["x/static/style.css?", "x/static/style.css#", "x/login?"])
def test_the_name_of_the_host_is_no_part_of_the_path(host: str, page_with_token: Served) -> None:
    """Starlette makes ``request.url`` from both; versions before 1.0 let the name end the path."""
    answer = page_with_token.get(Host=host)
    assert answer.status in (400, 401)
    assert "files-" not in answer.text


def test_pages_on_other_ports_have_cookies_of_their_own(page_with_token: Served, query: Path) -> None:
    with served(pages_of([query]), token=TOKEN) as other:
        names = [login(found, TOKEN)[1].partition("=")[0] for found in (page_with_token, other)]
    assert names == [f"flip27_ui_{page_with_token.port}", f"flip27_ui_{other.port}"]


def test_programs_give_the_token_in_each_request(page_with_token: Served) -> None:
    assert page_with_token.get(Authorization=f"Bearer {TOKEN}").status == 200


def login(page: Served, token: str, **headers: str) -> tuple[int, str]:
    origin = {"Origin": page.url, **headers}
    answer = page.ask("POST", "/login", origin, f"token={token}")
    return answer.status, answer.headers.get("set-cookie", "")


def test_a_browser_gives_the_token_once_and_gets_a_cookie_that_is_not_the_token(
    page_with_token: Served,
) -> None:
    status, cookie = login(page_with_token, TOKEN)
    assert status == 303
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert page_with_token.get(Cookie=cookie.partition(";")[0]).status == 200


def test_a_wrong_token_gets_no_cookie(page_with_token: Served) -> None:
    assert login(page_with_token, "guess") == (401, "")
    assert login(page_with_token, "x" * 10_000) == (413, "")


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}]
)
def test_another_site_cannot_send_the_form(headers: dict[str, str], page_with_token: Served) -> None:
    assert login(page_with_token, TOKEN, **headers) == (403, "")


def test_another_address_needs_a_token(query: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = flip27("ui", "--state", query, "--host", EVERYWHERE, "--json")
    assert said.code == 1
    assert "--token-env" in said.data["error"]["remedy"]
    monkeypatch.setenv("PAGE_TOKEN", "short")
    said = flip27("ui", "--state", query, "--host", EVERYWHERE, "--token-env", "PAGE_TOKEN", "--json")
    assert "16 characters" in said.data["error"]["what"]
    for token in ("p\u00e4sswort" * 3, "\udcff" * 16, f" {TOKEN}"):  # no header can have these
        monkeypatch.setenv("PAGE_TOKEN", token)
        said = flip27("ui", "--state", query, "--host", EVERYWHERE, "--token-env", "PAGE_TOKEN", "--json")
        assert "ASCII" in said.data["error"]["what"]
    monkeypatch.setenv("PAGE_TOKEN", TOKEN)
    said = flip27("ui", "--state", query, "--host", EVERYWHERE, "--token-env", "PAGE_TOKEN", "--json")
    assert said.code == 0
    assert TOKEN not in said.out


def test_a_port_that_is_taken_is_named(query: Path, page: Served) -> None:
    said = flip27("ui", "--state", query, "--port", str(page.port))
    assert said.code == 1
    assert f"port {page.port} cannot be used" in said.err
