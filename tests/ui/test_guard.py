"""Who may see the page, and what its headers forbid."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command_line import flip27, two_batches
from tests.ui.editing import Editor, field
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


@pytest.fixture(scope="module")
def editable(query: Path) -> Iterator[Editor]:
    with served(pages_of([query]), allow_edits=True) as found:
        yield Editor(found)


REFUSED_POSTS = {
    "another site": {"Origin": "http://evil.example"},
    "no site": {"Origin": ""},
    "a sandbox": {"Origin": "null"},
    "another port": {"Origin": "http://127.0.0.1:1"},
    "another site, without its origin": {"Sec_Fetch_Site": "cross-site"},
    "another port, without its origin": {"Sec_Fetch_Site": "same-site"},
    "the address bar": {"Sec_Fetch_Site": "none"},
}
ACTIONS = ("dry-run", "confirm", "withdraw", "savepoint", "withdraw-savepoint")


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("headers", REFUSED_POSTS.values(), ids=REFUSED_POSTS)
def test_nobody_else_can_send_the_forms_of_edits(
    headers: dict[str, str], action: str, editable: Editor
) -> None:
    answer = editable.post(action, {"operation": "replay", "which": "all", "why": "evil"}, **headers)
    assert (answer.status, "location" in answer.headers) == (403, False)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("token", ["", "guess", "\u00e4", "x" * 100_000])
def test_a_form_needs_the_token_of_this_process(token: str, action: str, editable: Editor) -> None:
    answer = editable.post(action, {"form": token, "operation": "replay", "which": "all", "why": "evil"})
    assert answer.status == 403
    assert "What to do: go back, load the page again" in answer.text.replace("</strong>", "")


def test_forms_of_another_page_are_refused(editable: Editor, query: Path) -> None:
    with served(pages_of([query]), allow_edits=True) as other:
        token = Editor(other).token
    assert token != editable.token
    assert editable.post("dry-run", {"form": token}).status == 403


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_edits_are_only_posted(method: str, action: str, editable: Editor) -> None:
    headers = {"Origin": editable.site.url}
    answer = editable.site.ask(method, f"{editable.path}/{action}?form={editable.token}", headers)
    assert answer.status in (404, 405)


def test_what_is_not_a_form_of_edits_cannot_be_posted(editable: Editor) -> None:
    for path in ("/", "/login", f"{editable.path}/edits", f"{editable.path}/batches", "/static/live.js"):
        answer = editable.site.ask("POST", path, {"Origin": editable.site.url}, f"form={editable.token}")
        assert answer.status in (404, 405), path


def test_a_form_that_is_too_long_is_refused(editable: Editor) -> None:
    assert editable.post("dry-run", {"why": "x" * 3_000_000}).status == 413
    assert editable.post("dry-run", {"split": ["1"] * 6000}).status == 400


def test_a_name_that_leads_here_cannot_send_forms(editable: Editor) -> None:
    answer = editable.post("dry-run", {}, Host="evil.example", Origin="http://evil.example")
    assert answer.status == 421


def test_with_a_token_edits_need_it(query: Path) -> None:
    with served(pages_of([query]), token=TOKEN, allow_edits=True) as found:
        _, cookie = login(found, TOKEN)
        known = {"Cookie": cookie.partition(";")[0]}
        (path,) = re.findall(r'href="(/s/[^"]*)/batches"', found.get(**known).text)[:1]
        page = found.get(f"{path}/savepoints", **known).text
        body = f"form={field(page, 'form')}&request=0f3a"
        for headers in ({}, {"Cookie": "flip27_ui=guess"}, {"Authorization": "Bearer guess"}):
            answer = found.ask("POST", f"{path}/withdraw", {"Origin": found.url, **headers}, body)
            assert answer.status == 401
        assert found.ask("POST", f"{path}/withdraw", {"Origin": found.url, **known}, body).status == 303


def test_a_proxy_that_keeps_the_name_of_the_host_can_be_in_front(query: Path) -> None:
    """It ends TLS: the origin is https, and names the same host."""
    with served(pages_of([query]), token=TOKEN, allow_edits=True) as found:
        proxied = {"Host": "flip27.example", "Authorization": f"Bearer {TOKEN}"}
        (path,) = re.findall(r'href="(/s/[^"]*)/batches"', found.get(**proxied).text)[:1]
        body = f"form={field(found.get(f'{path}/savepoints', **proxied).text, 'form')}&request=0f3a"
        at = f"{path}/withdraw"
        assert found.ask("POST", at, {**proxied, "Origin": "https://flip27.example"}, body).status == 303
        assert found.ask("POST", at, {**proxied, "Origin": "https://evil.example"}, body).status == 403


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
