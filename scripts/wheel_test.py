"""Proves that the wheel works without a checkout, and that the sdist builds the same wheel.

Builds in a copy of the tree (a stale build/ folder would smuggle deleted modules into the wheel), installs
the wheel without its dependencies into a clean environment, and runs scripts/wheel_smoke.py there from
another folder. The dependencies, of which pyspark alone has 450 MB, come from the environment that runs
this script: a path entry makes its site-packages importable but does not process its .pth files, so the
checkout's editable install stays invisible.
"""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile
from pathlib import Path

from flip27_source.contract_version import digest_of
from scripts.class_archive import BRIEF_JVM

CHECKOUT = Path(__file__).resolve().parent.parent
NOT_SOURCE = shutil.ignore_patterns(
    ".*", "build", "dist", "*.egg-info", "__pycache__", "demo-output", "results"
)


def run(*command: str | Path, cwd: Path, **environment: str) -> None:
    """Run a command; show its output only if it fails."""
    outcome = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if outcome.returncode != 0:
        print(outcome.stdout)
        sys.exit(f"failed with exit code {outcome.returncode}: {' '.join(map(str, command))}")


def pip_into(python: Path) -> tuple[str | Path, ...]:
    """This environment's pip, for another environment: creating one without pip is much faster."""
    return (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")


def build_wheels(work: Path) -> tuple[Path, Path]:
    """The wheel built from the tree, and the wheel built from an sdist of the tree."""
    tree = work / "tree"
    shutil.copytree(CHECKOUT, tree, symlinks=True, ignore=NOT_SOURCE)
    # One environment for all builds, with nothing but the build tools and their dependencies.
    builder = work / "builder"
    venv.create(builder)
    python = builder / "bin" / "python"
    run(*pip_into(python), "install", "--quiet", "build", "setuptools", cwd=work)
    build = (python, "-m", "build", "--no-isolation")
    run(*build, "--wheel", "--outdir", work / "direct", cwd=tree)
    run(*build, "--outdir", work / "by-sdist", cwd=tree)  # the sdist, then the wheel from it
    (direct,) = (work / "direct").glob("*.whl")
    (by_sdist,) = (work / "by-sdist").glob("*.whl")
    return direct, by_sdist


def expected_files() -> set[str]:
    """The files that the wheel must contain, according to the tree."""
    modules = {
        path.relative_to(CHECKOUT).as_posix()
        for path in (CHECKOUT / "flip27_source").rglob("*.py")
        if not path.is_relative_to(CHECKOUT / "flip27_source" / "enumerators")
        and not path.is_relative_to(CHECKOUT / "flip27_source" / "readers")
    }
    linked = {
        f"flip27_source/{path.relative_to(CHECKOUT).as_posix()}"
        for folder in ("enumerators", "readers")
        for path in (CHECKOUT / folder).rglob("*.py")
    }
    templates = {
        path.relative_to(CHECKOUT).as_posix()
        for ending in ("tmpl", "html", "css", "js", "md")
        for path in (CHECKOUT / "flip27_source").rglob(f"*.{ending}")
    }
    others = {"flip27_source/py.typed", "pyspark_flip27.py", "pyspark_flip27_state.py"}
    return modules | linked | templates | others


def check_contents(direct: Path, by_sdist: Path) -> None:
    """Compare both wheels with the tree, and the entry points with setup.cfg."""
    names = {wheel: set(zipfile.ZipFile(wheel).namelist()) for wheel in (direct, by_sdist)}
    if names[direct] != names[by_sdist]:
        sys.exit(f"wheel-test: the sdist builds a different wheel: {sorted(names[direct] ^ names[by_sdist])}")
    code = {name for name in names[direct] if ".dist-info/" not in name}
    if code != expected_files():
        sys.exit(f"wheel-test: tree and wheel differ in: {sorted(code ^ expected_files())}")
    if digest_of(direct / "flip27_source") != digest_of(CHECKOUT / "flip27_source"):
        sys.exit("wheel-test: the contract version of the wheel is not that of the checkout")
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names[direct]):
        sys.exit("wheel-test: the wheel has no LICENSE")
    if entry_points_in(direct) != entry_points_in_setup_cfg():
        sys.exit("wheel-test: the wheel's entry points are not those of setup.cfg")


def entry_points_in(wheel: Path) -> dict[str, dict[str, str]]:
    """The entry points that the wheel declares, by group."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt"))
        return parsed_entry_points(archive.read(name).decode())


def entry_points_in_setup_cfg() -> dict[str, dict[str, str]]:
    """The entry points that setup.cfg declares, by group."""
    config = configparser.ConfigParser(interpolation=None)
    config.read(CHECKOUT / "setup.cfg", encoding="utf-8")
    groups = config["options.entry_points"]
    return parsed_entry_points("\n".join(f"[{group}]{groups[group]}" for group in groups))


def parsed_entry_points(text: str) -> dict[str, dict[str, str]]:
    """The entry points in the text of an entry_points.txt, by group."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    return {group: dict(parser[group]) for group in parser.sections()}


def clean_environment(work: Path, wheel: Path) -> Path:
    """The Python of a new environment that contains only the wheel and borrows the dependencies."""
    home = work / "clean"
    venv.create(home)
    python = home / "bin" / "python"
    run(*pip_into(python), "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=work)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    lent = home / "lib" / version / "site-packages" / "lent.pth"
    lent.write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    return python


def build_and_try(work: Path) -> tuple[Path, Path]:
    """The wheel and the sdist, which were built, compared, installed and tried in the folder ``work``."""
    direct, by_sdist = build_wheels(work)
    check_contents(direct, by_sdist)
    print(f"wheel-test: {direct.name} contains the whole tree, and the sdist builds the same wheel")
    python = clean_environment(work, direct)
    elsewhere = work / "elsewhere"
    elsewhere.mkdir()
    smoke = elsewhere / "wheel_smoke.py"
    shutil.copy(CHECKOUT / "scripts" / "wheel_smoke.py", smoke)
    run(
        python,
        smoke,
        work / "clean",
        cwd=elsewhere,
        PYSPARK_PYTHON=str(python),
        SPARK_LOCAL_IP="127.0.0.1",
        SPARK_SUBMIT_OPTS=BRIEF_JVM,
    )
    print('wheel-test: imported, found by Spark without registering, and format("flip27") streams')
    (sdist,) = (work / "by-sdist").glob("*.tar.gz")
    return direct, sdist


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="flip27-wheel-") as name:
        build_and_try(Path(name).resolve())
