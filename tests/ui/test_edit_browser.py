"""Edits on the page in a browser: by keyboard, on a phone, without scripts, and while the query reads on."""

from __future__ import annotations

import datetime as dt
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from flip27_source.cli.demo.data import write_file
from flip27_source.cli.demo.folder import DemoFolder
from flip27_source.cli.demo.process import ChildProcess
from tests.cli.command_line import flip27
from tests.deadline import until
from tests.edits.edited import Edited
from tests.edits.partitions import partitions, read
from tests.ui.queries import DiskQuery
from tests.ui.served import Served, pages_of, served
from tests.ui.test_browser import SCHEMES, WEAKEST_CONTRAST
from tests.ui.window import Window


@pytest.fixture
def site(source: Edited, window: Window) -> Iterator[Served]:
    with served(pages_of([Path(source.state)]), allow_edits=True) as found:
        yield found
        window.page.goto("about:blank")  # the server ends before the window


def opens(window: Window, site: Served, operation: str) -> Any:
    """Open the form of an operation of the only source."""
    page = window.page
    page.goto(site.url)
    page.get_by_role("link", name="files-").or_(page.get_by_role("link", name="Partitions-")).click()
    page.get_by_role("link", name="Edits").click()
    page.get_by_role("button", name=f"{operation} ...").click()
    page.get_by_label("Why").wait_for()
    return page


def asks_for_all(page: Any) -> None:
    page.get_by_label("all, also those").check()
    page.get_by_label("Why").fill("a test")
    page.get_by_role("button", name="Dry run").click()
    page.get_by_role("heading", name="Dry run").wait_for()


def test_a_file_is_retried_by_keyboard_alone_and_its_fate_appears_by_itself(
    window: Window, spoiled: DiskQuery
) -> None:
    page, keys = window.page, window.page.keyboard
    with served(pages_of([spoiled.checkpoint]), allow_edits=True) as site:
        page.goto(site.url)
        page.get_by_role("link", name="3 quarantined").focus()
        keys.press("Enter")
        page.get_by_role("button", name="Retry ...").nth(1).focus()
        keys.press("Enter")
        page.get_by_label("Why").focus()
        keys.type("the disk is mended")
        keys.press("Enter")
        page.get_by_label("To submit it, type").focus()
        keys.type("quarantine retry 1")
        keys.press("Enter")
        window.waits_for(re.compile("Submitted, "))
        assert "waiting" in page.locator("#notice").inner_text()
        page.evaluate("window.isTheSame = true")
        spoiled.batch()
        page.get_by_role("status").get_by_text("applied", exact=True).wait_for()
        assert "in checkpoint 3: 1 split changed" in page.locator("#notice").inner_text()
        assert page.evaluate("window.isTheSame")
        page.goto("about:blank")


def test_a_double_click_going_back_and_loading_again_submit_an_edit_once(
    window: Window, site: Served, source: Edited
) -> None:
    page = opens(window, site, "replay")
    asks_for_all(page)
    page.get_by_label("To submit it, type").fill("replay 2")
    page.get_by_role("button", name="Submit").dblclick()
    window.waits_for(re.compile("Submitted, "))
    assert len(source.request_files()) == 1
    page.reload()
    assert source.batch() == ["a", "b"]
    page.go_back()
    window.waits_for("It was submitted")
    page.go_back()
    page.get_by_role("button", name="Dry run").wait_for()
    page.goto(site.url)
    source.batches()
    assert source.request_files() == []


def test_what_was_ticked_and_typed_survives_the_news(window: Window, site: Served, source: Edited) -> None:
    page = opens(window, site, "skip")
    (third, *_, last) = page.get_by_role("checkbox").all()
    third.check()
    page.get_by_label("Why").fill("half written")
    last.focus()
    source.batch()  # so that the list of those that wait is another one
    window.waits_for(re.compile("epoch 1"))
    looked = page.locator("#live").inner_text()
    page.wait_for_function("before => document.querySelector('#live').innerText !== before", arg=looked)
    assert third.is_checked()
    assert page.get_by_label("Why").input_value() == "half written"
    page.get_by_role("button", name="Dry run").click()
    window.waits_for("there is no split that waits to be read")  # c was read
    page.wait_for_function("() => document.activeElement.innerText.includes('Not possible')")
    assert page.get_by_label("Why").input_value() == "half written"


def test_a_query_that_reads_on_between_dry_run_and_confirmation(
    window: Window, site: Served, source: Edited
) -> None:
    page = opens(window, site, "skip")
    asks_for_all(page)
    page.get_by_label("To submit it, type").fill("skip")
    source.batch()
    looked = page.locator("#live").inner_text()
    page.wait_for_function("before => document.querySelector('#live').innerText !== before", arg=looked)
    page.keyboard.press("Enter")
    window.waits_for("That was not the text.")
    page.wait_for_function("() => document.activeElement.id === 'word'")
    page.keyboard.type("skip 4")
    page.keyboard.press("Enter")
    page.get_by_role("alert").get_by_text("this is different").wait_for()
    assert source.request_files() == []
    page.get_by_label("To submit it, type").fill("skip 2")
    page.keyboard.press("Enter")
    window.waits_for(re.compile("Submitted, "))
    assert source.batches() == [[]]  # of the edit


@pytest.mark.slow  # it starts Spark
def test_a_running_query_of_spark_applies_an_edit_while_the_page_is_open(
    window: Window, tmp_path: Path
) -> None:
    folder, page = DemoFolder.new(tmp_path), window.page
    for number in range(4):
        write_file(folder.landing, number, 10)
    query = ChildProcess("flip27_source.cli.demo.query", [str(folder.root), "2"], log=folder.log)
    try:
        until(lambda: folder.committed_batches() > 1, query.log_tail, seconds=200)
        with served(
            pages_of([folder.checkpoint]), now=lambda: dt.datetime.now(dt.UTC), allow_edits=True
        ) as site:
            page = opens(window, site, "replay")
            asks_for_all(page)
            page.get_by_label("To submit it, type").fill("replay 4")
            page.keyboard.press("Enter")
            window.waits_for(re.compile("the query applies it at its next batch boundary"))
            page.locator("#notice").get_by_text("applied", exact=True).wait_for(timeout=60_000)
            assert "4 splits changed" in page.locator("#notice").inner_text()
            page.goto("about:blank")
    finally:
        query.kill()


def test_partitions_are_moved_in_the_browser(window: Window, tmp_path: Path) -> None:
    source = partitions(tmp_path)
    with served(pages_of([Path(source.state)]), allow_edits=True) as site:
        page = opens(window, site, "set-position")
        page.get_by_label("all, also those").check()
        page.get_by_label("New position", exact=True).fill("-5")
        page.get_by_label("new position of orders/2").fill("earliest")
        page.get_by_label("Why").fill("a test")
        page.keyboard.press("Enter")
        page.get_by_label("To submit it, type").fill("set-position 3")
        page.keyboard.press("Enter")
        page.get_by_text("Submitted, ").nth(1).wait_for()
        page.goto("about:blank")
    assert read(source) == {"orders/0": [5, 14], "orders/1": [5, 14], "orders/2": [0, 9]}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_page_of_an_edit_fits_a_phone_and_can_be_read(
    scheme: str, chromium: Any, spoiled: DiskQuery
) -> None:
    context = chromium.new_context(viewport={"width": 360, "height": 700}, color_scheme=scheme)
    page = context.new_page()
    with served(pages_of([spoiled.checkpoint]), allow_edits=True) as site:
        page.goto(site.url)
        path = page.get_by_role("link", name="files-").get_attribute("href").removesuffix("/batches")
        forms = ("skip", "rewind", "set-position", "quarantine+retry")
        for view in ("/edits", "/savepoints", "/quarantine", *(f"/edit?operation={form}" for form in forms)):
            page.goto(site.url + path + view)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
            assert page.evaluate(WEAKEST_CONTRAST) >= 4.5, view
            for field in page.locator("form.edit input:visible:not([type=radio])").all():
                assert page.evaluate("(e) => Boolean(e.labels.length || e.ariaLabel)", field.element_handle())
        asks_for_all(page)
        page.get_by_label("To submit it, type").fill("nonsense")
        page.keyboard.press("Enter")
        page.get_by_role("alert").wait_for()
        page.wait_for_load_state()  # with its styles
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(WEAKEST_CONTRAST) >= 4.5
    context.close()


def test_edits_work_without_scripts(chromium: Any, source: Edited) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    with served(pages_of([Path(source.state)]), allow_edits=True) as site:
        page.goto(site.url)
        page.get_by_role("link", name="files-").click()
        page.get_by_role("link", name="Edits").click()
        page.get_by_role("button", name="replay ...").click()
        asks_for_all(page)
        page.get_by_label("To submit it, type").fill("replay 2")
        page.get_by_role("button", name="Submit").click()
        page.get_by_text("Submitted, ").first.wait_for()
        page.goto("about:blank")
    context.close()
    assert source.batch() == ["a", "b"]


def test_a_savepoint_appears_by_itself_beside_the_form_that_is_being_filled_in(
    window: Window, spoiled: DiskQuery
) -> None:
    page, saved = window.page, spoiled.root / "saved"
    with served(pages_of([spoiled.checkpoint]), allow_edits=True) as site:
        page.goto(site.url)
        page.get_by_role("link", name="files-").click()
        page.get_by_role("link", name="Savepoints").click()
        page.get_by_label("Directory", exact=True).fill(str(saved))
        page.get_by_role("button", name="List").click()
        window.waits_for(f"{saved} does not exist")
        page.get_by_label("Directory in which").fill("/elsewhere")
        flip27("savepoint", "create", "--state", spoiled.checkpoint / "flip27", "--to", saved, "--copy")
        page.get_by_role("cell", name="readable").wait_for()
        assert page.get_by_text("does not exist").count() == 0
        assert page.get_by_label("Directory in which").input_value() == "/elsewhere"
        page.goto("about:blank")


class _Evil(BaseHTTPRequestHandler):
    """A page on another port that sends a form of ours, as soon as it is opened."""

    target = ""

    def do_GET(self) -> None:
        fields = "".join(
            f'<input name="{name}" value="{value}">'
            for name, value in (("operation", "replay"), ("which", "all"), ("why", "evil"), ("form", "guess"))
        )
        script = "<script>document.forms[0].submit()</script>"
        text = f"<form method=post action={self.target}>{fields}</form>{script}"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        pass


def test_a_page_on_another_port_cannot_send_a_form(chromium: Any, site: Served, source: Edited) -> None:
    page = chromium.new_page()
    page.goto(site.url)
    path = page.get_by_role("link", name="files-").get_attribute("href").removesuffix("/batches")
    evil = HTTPServer(("127.0.0.1", 0), type("Evil", (_Evil,), {"target": f"{site.url}{path}/dry-run"}))
    thread = threading.Thread(target=evil.serve_forever)
    thread.start()
    try:
        page.goto(f"http://localhost:{evil.server_port}/")
        page.get_by_text("another site sends this form").wait_for()
    finally:
        evil.shutdown()
        thread.join()
        evil.server_close()
        page.close()
    assert source.request_files() == []
