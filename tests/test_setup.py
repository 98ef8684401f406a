"""Set-up: each target of the Makefile installs what it needs, once. These tests fetch no package."""

from __future__ import annotations

import configparser
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.release_check import KNOWN_EXTRAS

REPOSITORY = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("target", "part"),
    [
        ("demo", "demo"), ("docs", "docs"), ("lint", "lint"), ("format", "lint"), ("types", "types"),
        ("test", "test"), ("test-slow", "test"), ("test-long", "test"), ("test-fast", "test"),
        ("compat", "test"), ("compat-short", "test"), ("overlays", "venv"),
        ("bench", "test"), ("wheel-test", "wheel"), ("release-check", "release"),
    ],
)  # fmt: skip
def test_a_make_target_sets_up_its_own_part(target: str, part: str) -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", target],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[0] == f"bash scripts/setup.sh {part}"


class Checkout:
    """A checkout whose .venv records the calls of pip."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("setup.cfg", "setup.py", "scripts/setup.sh"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, folder / name)
        python = folder / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(
            '#!/bin/sh\nif [ "$1 $2" = "-m pip" ]; then echo "$@" >>asked; exit "${PIP:-0}"; fi\n'
            f'exec "{sys.executable}" "$@"\n'
        )
        python.chmod(python.stat().st_mode | stat.S_IXUSR)

    def set_up(self, *words: str, **environment: str) -> tuple[int, list[str]]:
        """Run the set-up script; return its exit code and what pip was called to install."""
        asked = self.folder / "asked"
        asked.unlink(missing_ok=True)
        done = subprocess.run(
            ["bash", "scripts/setup.sh", *words],
            cwd=self.folder, env={**os.environ, **environment}, capture_output=True, check=False,
        )  # fmt: skip
        lines = asked.read_text().splitlines() if asked.exists() else []
        return done.returncode, [line.partition("version-check ")[2] for line in lines]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "a checkout")


@pytest.mark.parametrize(
    ("part", "asked"),
    [
        ("demo", "--editable .[spark,cli,ui]"),
        ("lint", "ruff"),
        ("docs", "mkdocs-material>=9.6 nbconvert>=7"),
        ("test", "--editable .[test]"),
    ],
)
def test_a_part_is_installed_once_and_nothing_else_is_installed(
    part: str, asked: str, checkout: Checkout
) -> None:
    assert checkout.set_up(part) == (0, [asked])
    assert checkout.set_up(part) == (0, [])


def test_each_part_is_installed_when_it_is_first_needed(checkout: Checkout) -> None:
    checkout.set_up("demo")
    assert checkout.set_up("lint") == (0, ["ruff"])
    assert checkout.set_up("demo") == (0, [])


def test_after_the_whole_set_up_no_part_is_missing(checkout: Checkout) -> None:
    assert checkout.set_up() == (0, ["--editable .[dev]"])
    for part in ("demo", "docs", "lint", "release", "test", "types", "wheel"):
        assert checkout.set_up(part) == (0, [])


def test_a_changed_setup_cfg_or_a_moved_folder_is_installed_again(checkout: Checkout) -> None:
    checkout.set_up("lint")
    with (checkout.folder / "setup.cfg").open("a") as file:
        file.write("\n")
    assert checkout.set_up("lint") == (0, ["ruff"])
    checkout.folder = checkout.folder.rename(checkout.folder.with_name("moved"))
    assert checkout.set_up("lint") == (0, ["ruff"])


def test_a_failed_install_is_repeated(checkout: Checkout) -> None:
    assert checkout.set_up("lint", PIP="1") == (1, ["ruff"])
    assert checkout.set_up("lint") == (0, ["ruff"])


def test_a_part_that_does_not_exist_is_refused(checkout: Checkout) -> None:
    assert checkout.set_up("everything") == (1, [])


def test_only_what_runs_spark_needs_java(checkout: Checkout) -> None:
    nowhere = str(checkout.folder / "no-java-here")
    assert checkout.set_up("lint", JAVA_HOME=nowhere)[0] == 0
    assert checkout.set_up("docs", JAVA_HOME=nowhere)[0] == 0
    assert checkout.set_up("demo", JAVA_HOME=nowhere) == (1, [])


def test_the_check_of_a_release_knows_for_whom_each_extra_is() -> None:
    setup = configparser.ConfigParser()
    setup.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    assert set(setup["options.extras_require"]) == KNOWN_EXTRAS
