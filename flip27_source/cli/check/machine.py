"""Checks of the machine: Python, that of Spark's workers, packages, Java, and whether Spark finds flip27."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from flip27_source.contract_version import contract_version
from flip27_source.source_checks import Finding, failed, finding_of, ok, warning

from ..tune.bytecode import archives_of, spark_home
from .start_of_queries import CHECK as START
from .start_of_queries import start_of_queries

OLDEST_PYTHON = (3, 11)
OLDEST_PYSPARK = "4.0"
OLDEST_JAVA = 17
_JAVA_DEADLINE_S = 30
CHECK = "spark's python"
_PYTHON_DEADLINE_S = 120
_SEEN_BY_PYTHON = """\
import json, platform, sys
from flip27_source import contract_version
import pyarrow
print(json.dumps({"executable": sys.executable, "python": platform.python_version(),
                  "contract": contract_version.contract_version()}))
"""
_INSTALL = "install it on the driver and on every node: pip install {}"


def machine(*, java: bool) -> Iterator[Finding]:
    """All checks of this machine; with ``java``, also those of the JVM and of the Python that it starts."""
    yield python_version("python", sys.version_info[:3])
    for name, oldest in required_packages().items():
        yield package_version(f"package {name}", name, installed_version(name), oldest)
    yield package_version("package pyspark", "pyspark", pyspark_version(), OLDEST_PYSPARK)
    if importlib.util.find_spec("pandas") is None:
        said = "not installed: streams run without it; Spark Connect's client and toPandas() need it"
        yield ok("package pandas", said)
    if importlib.util.find_spec("pyspark_flip27") is not None:
        yield ok("format", 'Spark finds format("flip27") by itself')
    else:
        yield warning(
            "format",
            "the module pyspark_flip27 is not on the path of this Python",
            "install flip27-source with pip, or call flip27_source.register(spark)",
        )
    if java:
        yield java_version(_java_output())
        yield spark_python()
        yield finding_of("pyspark.zip", bytecode)
        yield finding_of(START, start_of_queries)


def bytecode() -> Finding:
    """Whether the archives that Spark's Python processes import from contain bytecode for this Python."""
    home = spark_home()
    archives = archives_of(home)
    without = [archive.path.name for archive in archives if not archive.is_complete]
    if not without:
        return ok("pyspark.zip", f"has bytecode ({home})" if archives else f"not used ({home})")
    return warning(
        "pyspark.zip",
        f"{' and '.join(without)} in {home / 'python' / 'lib'}: modules have no bytecode of this Python; "
        "each Python process of Spark compiles them, and queries start seconds later",
        "run flip27 tune as the owner of the folder",
    )


def python_version(check: str, version: tuple[int, ...]) -> Finding:
    text = ".".join(map(str, version))
    if version >= OLDEST_PYTHON:
        return ok(check, text)
    oldest = ".".join(map(str, OLDEST_PYTHON))
    return failed(check, text, f"use Python {oldest} or newer; Spark takes it from PYSPARK_PYTHON")


def required_packages() -> dict[str, str | None]:
    """The packages that flip27-source needs, with oldest versions; empty if it is not installed."""
    try:
        lines = metadata.requires("flip27-source") or ()
    except metadata.PackageNotFoundError:
        return {}
    oldest = {}
    for line in lines:
        match = re.fullmatch(r"([\w.-]+)\s*(?:>=\s*([\d.]+))?", line)
        if match is not None:  # others belong to extras
            oldest[match[1]] = match[2]
    return oldest


def installed_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def pyspark_version() -> str | None:
    """The version of pyspark, which may be a package of this Python or part of SPARK_HOME; None without it.

    The one of SPARK_HOME can be imported afterwards, as in programs that spark-submit starts.
    """
    home = os.environ.get("SPARK_HOME")
    if importlib.util.find_spec("pyspark") is None and home:
        libraries = sorted(Path(home, "python", "lib").glob("*.zip"))
        sys.path += [str(path) for path in (Path(home, "python"), *libraries)]
        importlib.invalidate_caches()
    if importlib.util.find_spec("pyspark") is None:
        return None
    from pyspark import version

    return str(version.__version__)


def package_version(check: str, name: str, version: str | None, oldest: str | None) -> Finding:
    requirement = name if oldest is None else f"'{name}>={oldest}'"
    if version is None:
        return failed(check, "not installed", _INSTALL.format(requirement))
    if oldest is not None and _numbers(version) < _numbers(oldest):
        return failed(check, f"{version}, but {oldest} or newer is needed", _INSTALL.format(requirement))
    return ok(check, version)


def java_version(output: str | None) -> Finding:
    """Whether the Java that printed ``output`` is new enough; None: Java was not found."""
    remedy = f"install Java {OLDEST_JAVA} or newer, and set JAVA_HOME if Java is not on the PATH"
    if output is None:
        return failed("java", "not found", remedy)
    match = re.search(r'version "(?:1\.)?(\d+)[^"]*"', output)
    if match is None:
        return warning("java", f"its version is not known: {output.strip()[:80]}", remedy)
    if int(match[1]) < OLDEST_JAVA:
        return failed("java", f"Java {match[1]}", remedy)
    return ok("java", f"Java {match[1]}")


def _java_output() -> str | None:
    """The output of ``java -version``; JAVA_HOME takes precedence, as in Spark."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java") if home is None else str(Path(home, "bin", "java"))
    if java is None:
        return None
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_JAVA_DEADLINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stderr + done.stdout


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def spark_python(environment: Mapping[str, str] = os.environ) -> Finding:
    """Start the Python that Spark uses for workers, and have it import what a source needs.

    Spark uses ``PYSPARK_PYTHON``, or else the first ``python3`` on the PATH, but not the Python of the
    program that starts the query.
    """
    named = environment.get("PYSPARK_PYTHON")
    command = named or "python3"
    called = (
        f"{command} (PYSPARK_PYTHON)"
        if named
        else "python3 (first on the PATH, as PYSPARK_PYTHON is not set)"
    )
    remedy = f"activate the virtual environment of this command, or set PYSPARK_PYTHON={sys.executable}"
    began = time.monotonic()
    try:
        done = subprocess.run(
            [command, "-c", _SEEN_BY_PYTHON],
            capture_output=True, text=True, timeout=_PYTHON_DEADLINE_S, check=False, env=dict(environment),
        )  # fmt: skip
    except OSError as error:
        return failed(CHECK, f"{called} cannot be started: {error.strerror}", remedy)
    except subprocess.TimeoutExpired:
        return failed(CHECK, f"{called} has not started in {_PYTHON_DEADLINE_S} s", remedy)
    facts = _answer(done.stdout)
    if done.returncode or facts is None:
        why = (done.stderr.strip() or f"it ended with {done.returncode}").splitlines()[-1]
        return failed(CHECK, f"{called} cannot import flip27_source and pyarrow: {why}", remedy)
    where = f"{called} is {facts['executable']}"
    if facts["contract"] != contract_version():
        said = f"{where} with flip27-source {facts['contract']}; this command has {contract_version()}"
        return failed(CHECK, said, remedy)
    own = ".".join(map(str, sys.version_info[:2]))
    if facts["python"].split(".")[:2] != own.split("."):
        return failed(CHECK, f"{where}, Python {facts['python']}; this command has {own}", remedy)
    return ok(CHECK, f"{where}, Python {facts['python']}; it started in {time.monotonic() - began:.1f} s")


def _answer(printed: str) -> dict[str, Any] | None:
    """The last line of the output; installed packages may print others before it."""
    try:
        facts = json.loads(printed.strip().rpartition("\n")[2])
    except ValueError:
        return None
    return facts if isinstance(facts, dict) else None
