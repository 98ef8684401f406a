"""Everything that users can name is in the documentation: options, commands, public names, errors."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import flip27_source
from flip27_source import edits, metrics, savepoints, testing
from flip27_source.registry import ENUMERATOR_GROUP, READER_GROUP, find_enumerator, find_reader, known_names
from flip27_source.source_options import ACTION_OPTIONS, CORE_OPTIONS, READER_BOUNDED_OPTIONS
from flip27_source.state_tables.views import STATE_OPTIONS
from scripts.api_page import error_classes

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {page.name: page.read_text() for page in DOCS.glob("*.md")}
PUBLIC = {module.__name__: module.__all__ for module in (flip27_source, testing, savepoints, edits, metrics)}

FOR_AUTHORS = (
    flip27_source.SplitEnumerator,
    flip27_source.SplitEnumeratorContext,
    flip27_source.DiscoveringEnumerator,
    flip27_source.SplitReader,
    flip27_source.SourceReaderContext,
)
INTERNAL = {field.name for field in dataclasses.fields(flip27_source.SourceReaderContext) if not field.repr}
"""Fields that the runtime sets and that authors use only through the methods of the context."""


def names_of_options() -> Iterator[str]:
    """The name of every option of every source and of the state tables."""
    own = [find_enumerator(name).options for name in known_names(ENUMERATOR_GROUP)]
    own += [find_reader(name).options for name in known_names(READER_GROUP)]
    everywhere = (CORE_OPTIONS, READER_BOUNDED_OPTIONS, ACTION_OPTIONS, STATE_OPTIONS)
    for table in (*everywhere, *own):
        yield from (option.name for option in table)


def without(name: str, pages: dict[str, str]) -> bool:
    """Whether the name appears on none of the pages."""
    word = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    return not any(word.search(text) for text in pages.values())


def test_every_option_is_in_the_docs() -> None:
    assert sorted({name for name in names_of_options() if without(name, PAGES)}) == []


def test_options_that_decide_about_data_loss_are_on_the_page_about_guarantees() -> None:
    guarantees = PAGES["guarantees.md"]
    deciding = [
        "onSplitError", "onLateFile", "mode", "checkRecords", "onActionError", "allowNonRestoredState",
    ]  # fmt: skip
    assert [name for name in deciding if name not in guarantees] == []


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_docs(module: str) -> None:
    assert [name for name in PUBLIC[module] if without(name, PAGES)] == []


def test_names_for_authors_are_on_the_pages_for_authors() -> None:
    pages = {name: PAGES[name] for name in ("write_an_enumerator.md", "write_a_reader.md")}
    for base in FOR_AUTHORS:
        names = [one for one in dir(base) if not one.startswith(("_", "resolve_")) and one not in INTERNAL]
        assert [name for name in names if without(name, pages)] == [], base.__name__


def test_every_error_class_has_its_cause_and_remedy_in_troubleshooting() -> None:
    headings = " ".join(re.findall(r"^#+ (.*)$", PAGES["troubleshooting.md"], re.MULTILINE))
    names = [error.__name__ for error in error_classes() if error is not flip27_source.Flip27Error]
    assert [name for name in names if without(name, {"headings": headings})] == []
    assert not without("Flip27Error", {"page": PAGES["troubleshooting.md"]})


def test_every_test_that_a_page_names_exists() -> None:
    tests = DOCS.parent / "tests"
    defined = re.compile(r"^ *def (test_\w+)", re.MULTILINE)
    known = {name for file in tests.rglob("test_*.py") for name in defined.findall(file.read_text())}
    named = {name for text in PAGES.values() for name in re.findall(r"`(test_\w+)`", text)}
    files = {path for text in PAGES.values() for path in re.findall(r"`tests/([\w/.]+)`", text)}
    assert len(named) > 20
    assert sorted(named - known) == []
    assert sorted(path for path in files if not (tests / path).exists()) == []


def test_messages_in_troubleshooting_exist_in_the_code() -> None:
    """The quoted words between the ellipses of each message appear literally in the code."""
    folders = [DOCS.parent / part for part in ("flip27_source", "enumerators", "readers")]
    text = "\n".join(file.read_text() for folder in folders for file in folder.rglob("*.py"))
    code = re.sub(r'"\s*\n\s*f?"', "", text)  # joins adjacent string literals on consecutive lines
    table = re.findall(r"^\| (\".*?) \|", PAGES["troubleshooting.md"], re.MULTILINE)
    quoted = [text for cell in table for text in re.findall(r'"([^"]+)"', cell)]
    pieces = [part.strip(" ,;") for text in quoted for part in re.split(r"\.\.\.", text) if part.strip(" ,;")]
    assert len(pieces) > 40
    assert [piece for piece in pieces if piece not in code and piece not in OF_SPARK] == []


OF_SPARK = {
    "Python worker failed to connect back",
    "Python in worker has different version",
    "does not support continuous processing",
}
"""Messages that come from Spark itself."""
