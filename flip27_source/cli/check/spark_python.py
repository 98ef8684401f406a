"""Checks whether the Python of Spark's workers can run a source, by starting it as Spark does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from flip27_source import __version__
from flip27_source.source_checks import Finding, failed, ok

CHECK = "spark's python"
_DEADLINE_S = 120
_LOOK = """\
import json, platform, sys
import flip27_source, pyarrow
print(json.dumps({"executable": sys.executable, "python": platform.python_version(),
                  "library": flip27_source.__version__}))
"""


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
            [command, "-c", _LOOK],
            capture_output=True, text=True, timeout=_DEADLINE_S, check=False, env=dict(environment),
        )  # fmt: skip
    except OSError as error:
        return failed(CHECK, f"{called} cannot be started: {error.strerror}", remedy)
    except subprocess.TimeoutExpired:
        return failed(CHECK, f"{called} has not started in {_DEADLINE_S} s", remedy)
    facts = _answer(done.stdout)
    if done.returncode or facts is None:
        why = (done.stderr.strip() or f"it ended with {done.returncode}").splitlines()[-1]
        return failed(CHECK, f"{called} cannot import flip27_source and pyarrow: {why}", remedy)
    where = f"{called} is {facts['executable']}"
    if facts["library"] != __version__:
        said = f"{where} with flip27-source {facts['library']}; this command has {__version__}"
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
