"""A source that arrives at a node without flip27-source, or with another build, names host and remedy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import py4j
import pyspark
import pytest
from pyspark import cloudpickle

import flip27_source
from flip27_source.contract_version import FOLDER, contract_version
from flip27_source.spark.data_source import Flip27DataSource
from flip27_source.spark.state_source import StateDataSource

OPTIONS = {"enumerator": "sequence", "path": "/ckpt"}


class Registered(Flip27DataSource):
    format_name = "orders"


@pytest.mark.parametrize("kind", [Flip27DataSource, StateDataSource, Registered])
def test_a_source_arrives_as_it_was_sent(kind: type[Any]) -> None:
    sent = kind(OPTIONS)
    arrived, [again] = cloudpickle.loads(cloudpickle.dumps((sent, [sent])))
    assert (type(arrived), vars(arrived)) == (kind, vars(sent))
    assert again is arrived


def arrival(pickled: Path, *modules: Path, site: bool) -> str:
    """The error in a Python that finds these modules; without ``site``, it finds no installed packages."""
    done = subprocess.run(
        [
            sys.executable,
            *([] if site else ["-S"]),
            "-c",
            "import pickle, sys; pickle.load(sys.stdin.buffer)",
        ],
        input=pickled.read_bytes(),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, modules))},
        cwd=pickled.parent,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr.decode()


def test_a_node_without_the_package_or_with_another_build_is_named(tmp_path: Path) -> None:
    pickled = tmp_path / "source.pickle"
    pickled.write_bytes(cloudpickle.dumps(Flip27DataSource(OPTIONS)))
    bare = tmp_path / "bare"
    bare.mkdir()
    for package in (pyspark, py4j):
        (bare / package.__name__).symlink_to(Path(package.__file__).parent)
    said = arrival(pickled, bare, site=False)
    assert f"cannot import flip27_source as the driver does ({contract_version()})" in said
    assert f"No module named 'flip27_source'. Spark runs {sys.executable} there, Python 3." in said
    assert "What to do: install the same build" in said
    other = tmp_path / "other"
    shutil.copytree(FOLDER, other / "flip27_source", ignore=shutil.ignore_patterns("__pycache__"))
    with (other / "flip27_source" / "readers" / "text.py").open("a") as file:
        file.write("# one more line\n")
    said = arrival(pickled, other, site=True)
    assert f"IncompatibleStateError: the driver has flip27-source {contract_version()}, and host " in said
    assert f"has {flip27_source.__version__}+" in said
    assert f" in {other / 'flip27_source'}" in said
    (other / "flip27_source" / "contract_version.py").unlink()
    assert "No module named 'flip27_source.contract_version'" in arrival(pickled, other, site=True)
