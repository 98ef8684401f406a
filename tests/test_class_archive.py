"""The archive of Spark's classes: whatever is wrong with it, a JVM starts and does not mention it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import class_archive


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a folder").mkdir()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "a folder"))
    file = class_archive.archive_file()
    assert file is not None
    file.parent.mkdir()
    return file


def test_without_an_archive_a_jvm_gets_no_options_for_it(archive: Path) -> None:
    assert class_archive.java_options() == ""
    archive.touch()  # an empty file marks an archive that could not be made
    assert class_archive.java_options() == ""


def test_a_jvm_prints_nothing_about_an_archive_that_does_not_fit(archive: Path) -> None:
    archive.write_bytes(b"of another Java" * 1000)
    options = shlex.split(class_archive.java_options())
    assert f"-XX:SharedArchiveFile={archive}" in options
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else "java"
    done = subprocess.run([java, *options, "--version"], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == ""


def test_another_java_has_its_own_archive(archive: Path, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JAVA_HOME", str(tmp_path))
        other = class_archive.archive_file()
    assert other is not None
    assert (other.parent, other.suffix) == (archive.parent, archive.suffix)
    assert other != archive


def test_an_archive_that_cannot_be_made_is_not_tried_again(
    archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    class_archive.make(archive)
    assert "cannot be archived" in capsys.readouterr().out
    assert archive.stat().st_size == 0
    class_archive.make(archive)
    assert capsys.readouterr().out == ""
