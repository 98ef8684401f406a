"""The registry finds the class of a name, and answers a mistake with what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.sequence import SequenceEnumerator
from flip27_source.errors import RegistryError
from flip27_source.readers.sequence import SequenceReader
from flip27_source.registry import ENUMERATOR_GROUP, READER_GROUP, find_enumerator, find_reader, known_names


def test_built_in_names_are_found_in_any_case() -> None:
    assert find_enumerator("files") is FilesEnumerator
    assert find_enumerator("Files") is FilesEnumerator
    assert find_enumerator("sequence") is SequenceEnumerator
    assert find_reader("sequence") is SequenceReader


def test_a_class_is_found_by_module_and_name() -> None:
    assert find_enumerator("flip27_source.enumerators.files.enumerator:FilesEnumerator") is FilesEnumerator


def test_the_known_names_are_those_in_the_docs() -> None:
    assert {"files", "sequence"} <= set(known_names(ENUMERATOR_GROUP))
    assert {"json", "csv", "parquet", "text", "binary"} <= set(known_names(READER_GROUP))


def test_an_unknown_name_is_refused_with_a_suggestion_and_all_that_are_known() -> None:
    with pytest.raises(RegistryError, match="enumerator 'fils' is unknown; did you mean 'files'") as caught:
        find_enumerator("fils")
    assert "files, http, kafka, postgres, sequence, sql, or package.module:Class" in str(caught.value)
    with pytest.raises(RegistryError, match="reader 'parket' is unknown; did you mean 'parquet'"):
        find_reader("parket")


def test_the_error_for_a_missing_package_says_where_to_install_it() -> None:
    with pytest.raises(RegistryError, match="cannot be imported from no_such_package:X") as caught:
        find_enumerator("no_such_package:X")
    assert "on the driver and on every executor node" in str(caught.value)
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_the_error_for_a_missing_class_says_what_to_write() -> None:
    with pytest.raises(
        RegistryError, match=r"module flip27_source\.enumerators\.files\.enumerator has no Nothing"
    ):
        find_enumerator("flip27_source.enumerators.files.enumerator:Nothing")


@pytest.mark.parametrize("name", [":X", "json:", "..json:X", "json:dumps.", "a b:X", ":"])
def test_the_error_for_a_malformed_name_says_what_to_write(name: str) -> None:
    with pytest.raises(RegistryError, match=r"package\.module:Class|cannot be imported"):
        find_enumerator(name)


@pytest.mark.parametrize(
    "name", ["json:dumps", "json:JSONDecoder", "flip27_source.readers.sequence:SequenceReader"]
)
def test_a_class_that_is_not_an_enumerator_is_refused(name: str) -> None:
    with pytest.raises(RegistryError, match="which is not a SplitEnumerator") as caught:
        find_enumerator(name)
    assert "derive the class from flip27_source.SplitEnumerator" in str(caught.value)


def test_an_enumerator_is_not_accepted_as_a_reader() -> None:
    with pytest.raises(RegistryError, match="which is not a SplitReader"):
        find_reader("flip27_source.enumerators.files.enumerator:FilesEnumerator")


def test_an_error_inside_the_authors_module_is_shown_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is not that the class is missing: the class exists, but its module fails."""
    (tmp_path / "mistaken_orders.py").write_text("import os\nos.no_such_function()\nclass Orders: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Exception, match="no_such_function") as caught:
        find_enumerator("mistaken_orders:Orders")
    assert "has no Orders" not in str(caught.value)


def test_the_error_for_an_incomplete_class_names_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_orders.py").write_text(
        "from flip27_source import SplitEnumerator\n"
        "class Orders(SplitEnumerator):\n    def start(self): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RegistryError, match="handle_split_request"):
        find_enumerator("half_orders:Orders")
