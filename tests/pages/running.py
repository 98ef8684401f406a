"""Runs the code of a documentation page as it is written there: Python, SQL and shell commands.

Only places differ from the page: paths that begin with / are moved below a directory of the test, and the
test of a page may replace others, such as a server's URL. Nothing here depends on a particular page.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flip27_source.cli.main import main

REPOSITORY = Path(__file__).parents[2]
LANGUAGES = ("python", "sql", "bash", "text", "")
NOT_COMMANDS = ("text", "")
"""The languages of blocks that are not code: layouts of folders, lines of a log, signatures."""

NOT_RUN = {
    "pip install": "asks a package registry; release-check installs",
    "python3 -m venv": "the tests run in one",
    ". .venv/bin/activate": "the tests run in one",
    "make": "the Makefile's own test, and this very one",
    "python quickstart.py": "the tests run the blocks of Python themselves; release-check runs it",
    "pytest": "the tests of a new project: tests/cli/test_new.py",
    "flip27 demo": "a minute and more: tests/test_demo.py",
    "flip27 postgres": "needs a PostgreSQL server: tests/cli/test_postgres_commands.py",
    "flip27 retire": "removes the query that the other blocks read: tests/cli/test_retire.py",
    "flip27 notifications": "needs AWS, or its server: tests/cli/test_notification_commands.py",
    "flip27 check --enumerator postgres": "the same",
    "flip27 check --master": "needs a cluster: tests/spark/test_check.py",
    "flip27 edit set-position --state /ckpt/orders/flip27 --split orders/3": "needs a broker: "
    "tests/enumerators/kafka/test_edits.py",
    "flip27 import spark-files": "needs a checkpoint of Spark's own source: tests/spark/test_moving.py",
    "flip27 import list": "needs the list: tests/cli/test_import_files.py",
    "flip27 export spark-files": "needs a query that was stopped: tests/cli/test_export_files.py",
    "flip27 export-metrics": "serves until it is interrupted: tests/metrics/test_states.py",
    "flip27 ui": "serves until it is interrupted: tests/ui",
    "flip27 import kafka": "needs a broker: tests/cli/test_import_kafka.py",
    "from delta.tables": "needs Delta Lake, which the tests do not have",
    "flip27 --install-completion": "changes the start-up file of the user's shell",
    "--8<--": "a file of examples/, which has tests of its own",
}
"""The beginnings of lines that no test of the pages runs, with the reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block; ``line`` is the line number of its opening fence, counted from 1."""

    page: str
    line: int
    language: str
    text: str

    @property
    def is_code(self) -> bool:
        return self.language not in NOT_COMMANDS

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page, in their order."""
    found, opened, lines = [], None, []
    for number, line in enumerate((REPOSITORY / page).read_text().split("\n"), 1):
        fence = re.fullmatch(r" *```(\S*)(?: .*)?", line)
        if fence and opened is None:
            opened, lines = (number, fence[1]), []
        elif fence and opened is not None:
            found.append(Block(page=page, line=opened[0], language=opened[1], text="\n".join(lines)))
            opened = None
        else:
            lines.append(line)
    return found


def reason_not_to_run(line: str) -> str | None:
    """The entry of NOT_RUN with which a line begins, if any."""
    return next((start for start in NOT_RUN if f"{line} ".startswith(f"{start} ")), None)


class PageRun:
    """Runs the blocks of a page in order. The Python blocks form one program.

    Args:
        below: the directory below which the paths of the page are moved.
        names: the values of names that the program uses but does not define, such as ``spark``.

    Attributes:
        names: these, and the names that the program has defined.
        places: further places of the page, with their replacements in the test.
        rest: the blocks that have not run yet.
    """

    def __init__(self, page: str, *, below: Path, **names: object) -> None:
        self.below = below
        self.names: dict[str, Any] = {"__name__": "page", **names}
        self.places: dict[str, str] = {}
        self.rest = [block for block in blocks_of(page) if block.is_code]

    def run(self, *, until: str | None = None) -> None:
        """Run the blocks that are left, or only those before the first that contains the text ``until``."""
        while self.rest and (until is None or until not in self.rest[0].text):
            self.run_block()
        assert until is None or self.rest, f"no block contains {until!r}"

    def run_block(self, names: Mapping[str, object] | None = None) -> None:
        """Run the next block; ``names`` are further names for a Python block."""
        block = self.rest.pop(0)
        if block.language == "python":
            self._python(block, names or {})
        elif block.language == "sql":
            rows = self.names["spark"].sql(self._moved(block.text)).collect()
            filled = [any(value is not None for value in column) for column in zip(*rows, strict=True)]
            assert all(filled or [False]), f"{block}: a column of the answer is empty: {rows}"
        else:
            for line in block.text.replace("\\\n", " ").split("\n"):
                self._shell(line, str(block))

    def place(self, path: str) -> Path:
        """The path in the test of a path on the page."""
        return self.below / path.lstrip("/")

    def _python(self, block: Block, names: Mapping[str, object]) -> None:
        if reason_not_to_run(block.text):
            return
        text = "\n" * block.line + self._moved(block.text)
        code = compile(text, str(REPOSITORY / block.page), "exec", dont_inherit=True)
        self.names.update(names)
        exec(code, self.names)  # noqa: S102 - our own page

    def _shell(self, line: str, where: str) -> None:
        words = [self._moved_word(word) for word in shlex.split(line, comments=True)]
        if not words or reason_not_to_run(line):
            return
        if words[0] == "cd":
            os.chdir(words[1])
            return
        assert words[0] == "flip27", f"{where}: nothing says how to run {line!r}, or why not to"
        assert main(words[1:]) == 0, f"{where}: {line}"

    def _moved(self, text: str) -> str:
        return re.sub(r"""(?<=["'=])/(?=\w)""", f"{self.below}/", self._replaced(text))

    def _moved_word(self, word: str) -> str:
        word = self._replaced(word)
        return f"{self.below}{word}" if word.startswith("/") else word

    def _replaced(self, text: str) -> str:
        for place, there in self.places.items():
            text = text.replace(place, there)
        return text
