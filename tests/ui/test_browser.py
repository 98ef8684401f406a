"""The page of ``flip27 ui`` in a browser."""

from __future__ import annotations

import datetime as dt
import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from flip27_source.cli.demo.data import write_file
from flip27_source.cli.demo.folder import DemoFolder
from flip27_source.cli.demo.process import ChildProcess
from flip27_source.cli.ui.server import bound
from tests.cli.command_line import flip27, two_batches
from tests.deadline import until
from tests.executor.failing_query import FailingQuery
from tests.ui.queries import DiskQuery
from tests.ui.served import Clock, Served, pages_of, served
from tests.ui.window import Window

SCHEMES = ("light", "dark")


@pytest.fixture(scope="module")
def site(hostile: DiskQuery) -> Iterator[Served]:
    with served(pages_of([hostile.checkpoint])) as found:
        yield found


def test_hostile_names_do_nothing_on_any_page(window: Window, site: Served) -> None:
    page = window.page
    page.goto(site.url)
    page.get_by_role("link", name="files-").click()
    for name in ("Splits", "Quarantine", "Checkpoints", "Batches"):
        page.get_by_role("navigation").get_by_role("link", name=name).click()
        page.wait_for_url(f"**/{name.lower()}")
        assert page.locator("main img, main script, main iframe").count() == 0
    page.get_by_role("navigation").get_by_role("link", name="Splits").click()
    page.wait_for_url("**/splits")
    hrefs = page.eval_on_selector_all("td.name a", "links => links.map(link => link.href)")
    assert len(hrefs) == 7
    for href in hrefs:
        page.goto(href)
        assert page.title().startswith("lost: files-")
        assert page.get_by_text("Batches that read it").count() == 1


class Killed:
    """The process of a query that can be killed."""

    def __init__(self, root: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.ui.killed_query", str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def batch(self, file: str) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{file}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def shows_a_kill_and_a_resume(
    window: Window, checkpoint: Path, start: Callable[[], Callable[[], None]]
) -> None:
    """Kill and resume a query while the page is open; ``start`` runs it until a batch is done."""
    kill = start()
    try:
        with served(pages_of([checkpoint]), now=Clock(dt.datetime.now(dt.UTC))) as site:
            window.page.goto(site.url)
            window.waits_for("1 source, 1 running")
            window.page.evaluate("window.isTheSame = true")
            kill()
            window.waits_for("1 source, 1 lost")
            assert "1 lost" in window.page.title()
            assert window.page.get_by_role("status").inner_text() == window.page.title()  # read out
            kill = start()
            window.waits_for("1 source, 1 running")
            window.waits_for(re.compile("epoch 2"))
            window.waits_for(re.compile("checkpoint 2"))
            assert window.page.evaluate("window.isTheSame")
            window.page.goto("about:blank")  # the server ends before the window
    finally:
        kill()


def test_an_open_page_shows_that_a_query_is_killed_and_resumed(window: Window, tmp_path: Path) -> None:
    def start() -> Callable[[], None]:
        query = Killed(tmp_path)
        query.batch(f"{query.process.pid}.txt")
        return query.kill

    shows_a_kill_and_a_resume(window, tmp_path / "checkpoint", start)


@pytest.mark.slow  # it starts Spark twice
def test_an_open_page_shows_that_a_query_of_spark_is_killed_and_resumed(
    window: Window, tmp_path: Path
) -> None:
    folder, files = DemoFolder.new(tmp_path), count()

    def start() -> Callable[[], None]:
        write_file(folder.landing, next(files), 10)
        done = folder.committed_batches()
        query = ChildProcess("flip27_source.cli.demo.query", [str(folder.root), "4"], log=folder.log)
        until(lambda: folder.committed_batches() > done, query.log_tail, seconds=200)
        return query.kill

    shows_a_kill_and_a_resume(window, folder.checkpoint, start)


@pytest.mark.slow  # it starts Spark four times
def test_an_open_page_shows_the_demo_through_both_of_its_kills(window: Window, tmp_path: Path) -> None:
    with bound("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
    sizes = ("--files", "24", "--rows-per-file", "20", "--files-per-batch", "4", "--over-s", "2")
    words = ("demo", "--ui", "--port", str(port), "--json", "--parent", str(tmp_path), *sizes)
    with subprocess.Popen(
        [sys.executable, "-m", "flip27_source.cli.main", *words], stdout=subprocess.PIPE
    ) as demo:
        try:
            until(lambda: is_open(port), lambda: f"the demo has ended with {demo.poll()}")
            window.page.goto(f"http://127.0.0.1:{port}")
            window.page.evaluate(KEPT_SUMMARIES)
            running, lost = "1 source, 1 running", "1 source, 1 lost"
            wanted = [running, lost, running, lost, running]
            window.page.wait_for_function("n => window.seen.length > n", arg=len(wanted), timeout=200_000)
            assert window.page.evaluate("window.seen") == ["0 sources, 1 location cannot be read", *wanted]
            window.page.goto("about:blank")  # the demo ends before the window
            said = json.loads(demo.communicate(timeout=200)[0])
        finally:
            demo.kill()
    assert (said["lost"], said["duplicated"], len(said["kills"])) == (0, 0, 2)


def is_open(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


KEPT_SUMMARIES = """() => {
  const said = () => document.querySelector("#summary").innerText;
  window.seen = [said()];
  const keep = () => { if (said() !== window.seen.at(-1)) window.seen.push(said()); };
  new MutationObserver(keep).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""


def test_what_the_user_does_survives_the_news(window: Window, site: Served) -> None:
    page = window.page
    page.goto(site.url)
    page.get_by_role("link", name="files-").focus()
    looked = page.locator("#live").inner_text()
    page.wait_for_function("before => document.querySelector('#live').innerText !== before", arg=looked)
    assert page.evaluate("document.activeElement.innerText").startswith("files-")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Splits").click()
    page.get_by_label("Part of the name").type("late")
    looked = page.locator("#live").inner_text()
    page.wait_for_function("before => document.querySelector('#live').innerText !== before", arg=looked)
    assert page.get_by_label("Part of the name").input_value() == "late"
    page.keyboard.press("Enter")
    page.wait_for_url("**/splits?name=late*")
    assert page.locator("td.name a").count() == 1
    page.get_by_role("link", name="Quarantine").click()
    page.locator("summary").first.click()
    looked = page.locator("#live").inner_text()
    page.wait_for_function("before => document.querySelector('#live').innerText !== before", arg=looked)
    assert page.locator("details").first.get_attribute("open") is None


def test_one_who_is_called_at_night_sees_the_file_that_ended_the_query_and_the_way_past_it(
    window: Window, tmp_path: Path
) -> None:
    failing = FailingQuery.begun(tmp_path)
    failing.attempt()
    failing.holder.close()
    with served(pages_of([failing.query.checkpoint]), now=Clock(dt.datetime.now(dt.UTC))) as site:
        window.page.goto(site.url)
        window.waits_for("1 source, 1 failed")
        assert f"{failing.query.landing}/orders.json, byte 9" in window.page.locator("pre.error").inner_text()
        assert "restart the query with onSplitError=quarantine" in window.page.locator(".remedy").inner_text()
        window.page.goto("about:blank")  # the server ends before the window


def test_one_who_is_called_at_night_is_one_click_from_the_file_and_the_way_past_it(
    window: Window, site: Served
) -> None:
    page = window.page
    page.goto(site.url)
    page.get_by_role("link", name="3 quarantined").click()
    page.wait_for_url("**/quarantine")
    (details, *_) = page.locator("details").all()
    assert "bytes-\\xff.parquet is truncated or damaged" in details.inner_text()
    assert (
        "restart the query with onSplitError=quarantine to continue without the file" in details.inner_text()
    )
    assert "flip27 edit quarantine retry --state " in page.locator("main").inner_text()


def test_a_page_without_answers_says_since_when_it_is_old(chromium: Any, hostile: DiskQuery) -> None:
    page = chromium.new_page()
    with served(pages_of([hostile.checkpoint])) as site:
        page.goto(site.url)
    page.get_by_text(re.compile("No answer since .* what is shown is old")).first.wait_for()
    page.close()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [360, 1280])
def test_every_page_fits_the_screen_and_can_be_read(
    scheme: str, width: int, chromium: Any, site: Served
) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 700}, color_scheme=scheme)
    page = context.new_page()
    page.goto(site.url)
    path = page.get_by_role("link", name="files-").get_attribute("href").removesuffix("/batches")
    for view in ("", "/batches", "/splits", "/quarantine", "/checkpoints"):
        page.goto(site.url + (path + view if view else "/"))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        assert page.evaluate(WEAKEST_CONTRAST) >= 4.5, view
    context.close()


WEAKEST_CONTRAST = """() => {
  const light = (color) => {
    const [r, g, b] = color.match(/[0-9.]+/g).map((part) => {
      const value = part / 255;
      return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    const color = getComputedStyle(element).backgroundColor;
    const shines = color.startsWith("rgba(0, 0, 0, 0") && element.parentElement;
    return shines ? behind(element.parentElement) : color;
  };
  const texts = document.querySelectorAll("p, td, th, dd, dt, h1, h2, a, pre, summary, label, button");
  const contrasts = [...texts].map((element) => {
    const pair = [light(getComputedStyle(element).color), light(behind(element))];
    return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
  });
  return Math.min(...contrasts);
}"""


def test_the_page_works_without_scripts(chromium: Any, site: Served) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(site.url)
    page.get_by_role("link", name="files-").click()
    page.get_by_role("link", name="Splits").click()
    page.get_by_label("Part of the name").fill("later")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url("**/splits?name=later*")
    assert page.locator("td.name a").count() == 1
    context.close()


def test_a_token_is_asked_for_once(window: Window, tmp_path: Path) -> None:
    with served(pages_of([two_batches(tmp_path).checkpoint]), token="a-token-of-many-words") as site:
        window.page.goto(site.url)
        window.wrong.clear()  # the browser calls the answer 401 an error
        window.page.get_by_label("Token").fill("a-token-of-many-words")
        window.page.keyboard.press("Enter")
        window.waits_for("1 source, 1 stopped")
        window.page.reload()
        window.waits_for("1 source, 1 stopped")
        assert "token" not in window.page.url


def test_a_report_opens_from_disk_and_asks_for_nothing(
    window: Window, hostile: DiskQuery, tmp_path: Path
) -> None:
    file, asked = tmp_path / "report.html", []
    assert flip27("ui", "--checkpoint-location", hostile.checkpoint, "--export", file).code == 0
    window.page.on("request", lambda request: asked.append(request.url))
    window.page.goto(file.as_uri())
    window.waits_for("1 source, 1 lost")
    assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
    assert window.page.evaluate("getComputedStyle(document.querySelector('.card')).borderRadius") == "6px"
