"""The contract version tells apart packages whose code differs, however they are installed."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from flip27_source import __version__
from flip27_source.contract_version import FOLDER, check_contract, contract_version, digest_of
from flip27_source.errors import IncompatibleStateError

CODE = {"__init__.py": "", "reader.py": "rows = 1\n", "readers/csv.py": "quote = '\"'\n"}


def package(folder: Path, **changes: str | None) -> Path:
    """Write the modules of a package; a change replaces or adds a file, or leaves it out."""
    for name, text in (CODE | changes).items():
        if text is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    "change",
    [
        {"reader.py": "rows = 2\n"},
        {"readers/csv.py": 'quote = "\'"\n'},
        {"readers/csv.py": None},
        {"readers/tsv.py": ""},
        {"reader.py": None, "bottom.py": "rows = 1\n"},
        {"__init__.py": "rows = 1\n", "reader.py": ""},
    ],
)
def test_each_difference_in_code_changes_the_digest(tmp_path: Path, change: dict[str, str | None]) -> None:
    assert digest_of(package(tmp_path / "a")) != digest_of(package(tmp_path / "b", **change))


def test_a_copy_a_linked_folder_an_archive_and_bytecode_have_the_same_digest(tmp_path: Path) -> None:
    digest = digest_of(package(tmp_path / "a"))
    assert digest_of(package(tmp_path / "b", **{"__pycache__/x.py": "1", "notes.txt": "n"})) == digest
    linked = package(tmp_path / "c", **{"readers/csv.py": None})
    (linked / "readers").symlink_to(tmp_path / "a" / "readers")
    assert digest_of(linked) == digest
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
        for name, text in CODE.items():
            archive.writestr(f"d/{name}", text)
    assert digest_of(tmp_path / "d.zip" / "d") == digest


def test_the_contract_version_is_that_of_the_installed_sources() -> None:
    assert contract_version() == f"{__version__}+{digest_of(FOLDER)}"
    check_contract(contract_version())


def test_a_driver_of_the_same_release_with_other_code_is_refused_by_name() -> None:
    with pytest.raises(IncompatibleStateError) as refused:
        check_contract(f"{__version__}+000000000000")
    assert f"the driver has flip27-source {__version__}+000000000000, and host " in refused.value.what
    assert f"has {contract_version()} in {FOLDER}" in refused.value.what
    assert "install the same build" in (refused.value.remedy or "")
