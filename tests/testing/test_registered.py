"""The laws are checked for every source that an installed package registers, by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flip27_source.errors import RegistryError
from flip27_source.testing import LawBroken, check_registered_sources, registered_sources

COUNTING = """
from flip27_source.enumerators.sequence import SequenceEnumerator
from flip27_source.readers.sequence import SequenceReader

class Counting(SequenceEnumerator):
    default_reader = SequenceReader

class Forgetful(Counting):
    def snapshot_state(self, checkpoint_id):
        return None
"""
EXAMPLE = {"end": "4", "rowsPerSplit": "2", "reader": "sequence"}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Returns a function that installs a package with entry points on Python's path."""

    def installed(name: str, **sources: str) -> None:
        folder = tmp_path / name
        info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / f"{name.replace('-', '_')}_code.py").write_text(COUNTING)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{source} = {target}" for source, target in sources.items()]
        (info / "entry_points.txt").write_text("\n".join(["[flip27_source.enumerators]", *lines, ""]))
        monkeypatch.syspath_prepend(str(folder))

    return installed


def test_every_registered_source_is_checked_by_its_name(install: Callable[..., None]) -> None:
    install("my-orders", orders="my_orders_code:Counting", returns="my_orders_code:Counting")
    assert registered_sources() == ["orders", "returns"]
    examples = {"orders": EXAMPLE, "returns": EXAMPLE}
    assert check_registered_sources(examples, fast=True) == ["orders", "returns"]


def test_the_sources_of_one_package_can_be_checked_alone(install: Callable[..., None]) -> None:
    install("my-orders", orders="my_orders_code:Counting")
    install("somebody-elses", theirs="somebody_elses_code:Counting")
    assert registered_sources(distribution="My_Orders") == ["orders"]
    assert check_registered_sources({"orders": EXAMPLE}, distribution="my-orders", fast=True) == ["orders"]


def test_a_registered_source_that_breaks_a_law_fails(install: Callable[..., None]) -> None:
    install("my-orders", orders="my_orders_code:Forgetful")
    with pytest.raises(LawBroken):
        check_registered_sources({"orders": EXAMPLE})


def test_a_source_without_an_example_is_refused(install: Callable[..., None]) -> None:
    install("my-orders", orders="my_orders_code:Counting", returns="my_orders_code:Counting")
    with pytest.raises(RegistryError, match="registered sources without an example: returns"):
        check_registered_sources({"orders": EXAMPLE})
    with pytest.raises(RegistryError, match="examples of sources that are not registered: order"):
        check_registered_sources({"order": EXAMPLE, "orders": EXAMPLE, "returns": EXAMPLE})


def test_a_package_without_registered_sources_is_refused() -> None:
    with pytest.raises(RegistryError, match="package 'my-orders' registers no source"):
        check_registered_sources({}, distribution="my-orders")


def test_a_missing_registered_class_is_named(install: Callable[..., None]) -> None:
    install("my-orders", orders="my_orders_code:Missing")
    with pytest.raises(RegistryError, match="has no Missing"):
        check_registered_sources({"orders": EXAMPLE})
