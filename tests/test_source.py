"""A source: how its names, classes and options are resolved, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from flip27_source.driver.holder import identity_of
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.options import PATH_GLOB_FILTER
from flip27_source.enumerators.sequence import SequenceEnumerator
from flip27_source.errors import OptionError, RegistryError
from flip27_source.options import Change, Option, text
from flip27_source.readers.sequence import SequenceReader
from flip27_source.registry import ENUMERATOR_GROUP, READER_GROUP, find_enumerator, find_reader, known_names
from flip27_source.snapshots.source_identity import differences
from flip27_source.source import Source, declared_options
from flip27_source.source_options import CORE_OPTIONS, DISCOVERY_INTERVAL, READER_BY_NAMES
from tests.toy_sources import EchoReader, Feed, Shelf


def test_names_are_resolved_to_classes_and_options_are_parsed() -> None:
    source = Source.resolve({"ENUMERATOR": "sequence", "END": "7", "parallelism": "3", "Uid": "numbers"})
    assert (source.enumerator_type, source.reader_type) == (SequenceEnumerator, SequenceReader)
    assert (source.enumerator_name, source.reader_name, source.uid) == ("sequence", "sequence", "numbers")
    assert source.options["end"] == 7
    assert source.options["parallelism"] == 3


def test_given_classes_need_no_names() -> None:
    source = Source.resolve({}, enumerator=Shelf, reader=EchoReader)
    assert (source.enumerator_name, source.reader_name, source.uid) == ("Shelf", "EchoReader", "Shelf")


def test_the_uid_of_a_class_given_by_module_is_its_name() -> None:
    source = Source.resolve({"enumerator": "flip27_source.enumerators.sequence:SequenceEnumerator"})
    assert source.uid == "SequenceEnumerator"


def test_an_enumerator_is_required_unless_there_is_a_path() -> None:
    with pytest.raises(OptionError, match="option enumerator is not set") as caught:
        Source.resolve({"reader": "json"})
    assert "give .load(path) the path of the files" in str(caught.value)
    for name in ("PATH", "paths"):
        source = Source.resolve({name: "/x", "reader": "json"})
        assert (source.enumerator_type, source.enumerator_name, source.uid) == (
            FilesEnumerator,
            "files",
            "files",
        )
    with pytest.raises(RegistryError, match="enumerator 'fils' is unknown"):
        Source.resolve({"path": "/x", "enumerator": "fils"})


def test_a_reader_is_required_unless_the_enumerator_brings_one_or_the_names_of_files_tell_it() -> None:
    with pytest.raises(
        OptionError, match="reader is not set, and FilesEnumerator has no default reader"
    ) as caught:
        Source.resolve({"enumerator": "files", "path": "/x"})
    assert 'add .option("reader", "json")' in str(caught.value)
    for given, reader in (({}, "csv"), ({"reader": "json"}, "json")):
        source = Source.resolve({"path": "/x", **given}, reader_by_names="csv")
        assert (source.reader_name, source.options[READER_BY_NAMES]) == (reader, None if given else "csv")


def test_options_of_enumerator_and_reader_are_known_and_others_are_not() -> None:
    class Colored(EchoReader):
        options: ClassVar[tuple[Option[Any], ...]] = (
            Option(name="color", parse=text, default="red", doc="The color."),
        )

    source = Source.resolve(
        {"color": "blue", "pathGlobFilter": "*"}, enumerator=FilesEnumerator, reader=Colored
    )
    assert (source.options["color"], source.options[PATH_GLOB_FILTER]) == ("blue", "*")
    with pytest.raises(OptionError, match="option color is unknown"):
        Source.resolve({"color": "blue"}, enumerator=FilesEnumerator, reader=EchoReader)
    with pytest.raises(OptionError, match="did you mean maxFilesPerTrigger"):
        Source.resolve({"maxFilePerTrigger": "1"}, enumerator=Shelf, reader=EchoReader)


def test_only_sources_that_discover_have_the_options_of_discovery() -> None:
    assert DISCOVERY_INTERVAL in declared_options(FilesEnumerator, EchoReader)
    assert DISCOVERY_INTERVAL not in declared_options(Feed, EchoReader)
    assert set(CORE_OPTIONS) - set(declared_options(Feed, EchoReader))
    with pytest.raises(OptionError, match="option discoveryInterval is unknown"):
        Source.resolve({"discoveryInterval": "1s"}, enumerator=Feed, reader=EchoReader)


def test_two_spellings_of_one_name_are_one_source() -> None:
    """A restart compares the names that are stored with the state."""
    one = identity_of(Source.resolve({"enumerator": "sequence"}))
    other = identity_of(Source.resolve({"enumerator": "Sequence"}))
    assert one == other


def test_the_identity_holds_only_first_start_options_and_no_secret() -> None:
    class Guarded(Feed):
        options: ClassVar[tuple[Option[Any], ...]] = (
            *Feed.options,
            Option(name="token", parse=text, default="", doc="It.", secret=True, changes=Change.FIRST_START),
            Option(name="since", parse=text, default="", doc="It.", changes=Change.FIRST_START),
        )

    raw = {"token": "hunter2", "since": "monday", "feed": "f", "storage.secret": "hunter3"}
    identity = identity_of(Source.resolve(raw, enumerator=Guarded, reader=EchoReader))
    assert identity.start_options == {"since": "monday"}
    assert "hunter" not in repr(identity)


def test_stored_texts_that_are_no_values_any_more_are_compared_as_texts() -> None:
    source = Source.resolve({"enumerator": "sequence", "start": "5"})
    mine = identity_of(source)
    for was in ({"start": "five"}, {"start": "5", "removedOption": "5"}):
        [difference] = differences(replace(mine, start_options=was), mine, source.options)
        [name] = was.keys() - {"start"} or {"start"}
        assert difference.what == f"option {name}"
    assert not differences(replace(mine, start_options={"start": "+5"}), mine, source.options)


def test_built_in_names_are_found_in_any_case() -> None:
    assert find_enumerator("files") is FilesEnumerator
    assert find_enumerator("Files") is FilesEnumerator
    assert find_enumerator("sequence") is SequenceEnumerator
    assert find_reader("sequence") is SequenceReader


def test_the_known_names_are_those_in_the_docs() -> None:
    assert {"files", "sequence"} <= set(known_names(ENUMERATOR_GROUP))
    assert {"json", "csv", "parquet", "text", "binary"} <= set(known_names(READER_GROUP))


def test_an_unknown_name_is_refused_with_a_suggestion_and_all_that_are_known() -> None:
    with pytest.raises(RegistryError, match="enumerator 'fils' is unknown; did you mean 'files'") as caught:
        find_enumerator("fils")
    known = "files, http, hybrid, kafka, mysql, postgres, sequence, sql, or package.module:Class"
    assert known in str(caught.value)
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
