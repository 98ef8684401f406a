"""A directory of savepoints that does not answer holds no page of the source."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.deadline import until
from tests.edits.edited import files
from tests.ui.editing import Editor
from tests.ui.served import pages_of, served
from tests.ui.test_pages import text_of


def test_a_directory_of_savepoints_that_does_not_answer_holds_no_page(tmp_path: Path) -> None:
    source = files(tmp_path, "ab")
    source.batches()
    with (
        served(pages_of([Path(source.state)]), allow_edits=True) as site,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        page = Editor(site)
        at = f"{page.path}/savepoints?to=http://127.0.0.1:{silent.getsockname()[1]}/saved"
        for _ in range(2):
            answer = site.get(at)
            assert answer.status == 200
            assert "/saved has not answered yet" in text_of(answer.text)
            assert site.get(f"{page.path}/batches").status == 200
        silent.close()
        until(lambda: "has not answered yet" not in text_of(site.get(at).text))
    source.engine.stop()
