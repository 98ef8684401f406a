"""``flip27 tune``: it adds bytecode to Spark's archives, so that processes need not compile the sources."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.command_line import flip27

SOURCE = "import sys\nWHERE = __file__\ndef fails():\n    raise ValueError('as expected')\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A Spark home with one archive without bytecode, as Spark distributes it."""
    library = tmp_path / "spark" / "python" / "lib"
    library.mkdir(parents=True)
    with zipfile.ZipFile(library / "pyspark.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pyspark/__init__.py", SOURCE)
        archive.writestr("pyspark/tests/__init__.py", "")
        archive.writestr("pyspark/tests/test_it.py", "this is not Python")
        archive.writestr("pyspark/py.typed", "")
    return library.parents[1]


def imported(home: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process that imports pyspark from the archive; return its output."""
    archive = home / "python" / "lib" / "pyspark.zip"
    return subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(archive)!r}); {code}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_tune_adds_bytecode_for_every_module_and_changes_nothing_else(home: Path) -> None:
    archive = home / "python" / "lib" / "pyspark.zip"
    with zipfile.ZipFile(archive) as before:
        contents = {name: before.read(name) for name in before.namelist()}
    said = flip27("tune", "--spark-home", home, "--json")
    (answer,) = said.data["archives"]
    assert (said.code, answer["modules"], answer["compiled_before"], answer["compiled"]) == (0, 1, 0, 1)
    with zipfile.ZipFile(archive) as after:
        assert {name: after.read(name) for name in contents} == contents
        assert set(after.namelist()) - set(contents) == {"pyspark/__init__.pyc"}


def test_processes_import_the_bytecode_and_their_errors_name_the_module_in_the_archive(home: Path) -> None:
    flip27("tune", "--spark-home", home)
    module = home / "python" / "lib" / "pyspark.zip" / "pyspark"
    assert imported(home, "import pyspark; print(pyspark.WHERE)").stdout.strip() == f"{module}/__init__.pyc"
    failed = imported(home, "import pyspark; pyspark.fails()")
    assert f'File "{module}/__init__.py", line 4, in fails' in failed.stderr


def test_bytecode_of_another_python_version_is_replaced(home: Path) -> None:
    archive = home / "python" / "lib" / "pyspark.zip"
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("pyspark/__init__.pyc", b"\0\0\r\n" + bytes(12))
    assert flip27("tune", "--spark-home", home, "--json").data["archives"][0]["compiled_before"] == 0
    with zipfile.ZipFile(archive) as after:
        assert after.namelist().count("pyspark/__init__.pyc") == 1
    assert imported(home, "import pyspark").returncode == 0


def test_a_second_run_and_a_check_change_nothing(home: Path) -> None:
    archive = home / "python" / "lib" / "pyspark.zip"
    untouched = archive.read_bytes()
    said = flip27("tune", "--spark-home", home, "--check")
    assert f"{archive}: 0 of 1 modules have bytecode of Python 3." in said.out
    assert archive.read_bytes() == untouched
    flip27("tune", "--spark-home", home)
    tuned = archive.read_bytes()
    assert "1 of 1 modules" in flip27("tune", "--spark-home", home).out
    assert archive.read_bytes() == tuned != untouched


def test_a_folder_without_spark_is_refused(tmp_path: Path) -> None:
    said = flip27("tune", "--spark-home", tmp_path)
    assert said.code == 1
    assert f"there is no archive in {tmp_path}/python/lib" in said.err
    assert "--spark-home" in said.err


def test_a_damaged_archive_is_refused_and_left_unchanged(home: Path) -> None:
    archive = home / "python" / "lib" / "pyspark.zip"
    archive.write_bytes(b"PK and nothing more")
    said = flip27("tune", "--spark-home", home)
    assert (said.code, archive.read_bytes()) == (1, b"PK and nothing more")
    assert f"{archive} cannot be read" in said.err
