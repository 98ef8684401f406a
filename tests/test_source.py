"""A source: how its classes and options are resolved, and what is refused."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from flip27_source.driver.holder import identity_of
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.options import PATH_GLOB_FILTER
from flip27_source.enumerators.sequence import SequenceEnumerator
from flip27_source.errors import OptionError
from flip27_source.options import Change, Option, text
from flip27_source.readers.sequence import SequenceReader
from flip27_source.source import Source, declared_options
from flip27_source.source_options import CORE_OPTIONS, DISCOVERY_INTERVAL
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


def test_an_enumerator_is_required() -> None:
    with pytest.raises(OptionError, match="option enumerator is not set") as caught:
        Source.resolve({"path": "/x"})
    assert 'add .option("enumerator", "files")' in str(caught.value)


def test_a_reader_is_required_unless_the_enumerator_brings_one() -> None:
    with pytest.raises(
        OptionError, match="reader is not set, and FilesEnumerator has no default reader"
    ) as caught:
        Source.resolve({"enumerator": "files", "path": "/x"})
    assert 'add .option("reader", "json")' in str(caught.value)


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
    with pytest.raises(OptionError, match="option discoveryinterval is unknown"):
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
