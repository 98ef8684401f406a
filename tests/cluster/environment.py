"""The packed environment that Spark sends to executors: flip27 of this checkout, what it needs, and Python.

It is a virtual environment, as venv-pack makes it: its Python is a link to the one that made it, which has to
be at the same path on every host. It has PySpark without its jars, which a cluster has already.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from fnmatch import fnmatch
from importlib.metadata import Distribution
from pathlib import Path

from packaging.requirements import Requirement

from scripts.installed_packages import installed, required

CHECKOUT = Path(__file__).resolve().parents[2]
OURS = (
    "flip27_source", "pyspark_flip27.py", "pyspark_flip27_state.py",
    "tests/__init__.py", "tests/audited_source.py", "tests/soak/__init__.py", "tests/soak/source.py",
)  # fmt: skip
"""The package, and the source of the soak, as that of a user would be."""

EXTRAS = ("s3", "kafka", "postgres")
LEFT_OUT = (
    "pyspark/jars/*", "pyspark/examples/*", "pyspark/data/*", "pyspark/python/*", "pyspark/bin/*",
    "pyspark/*/tests/*", "pyspark/ml/*", "pyspark/mllib/*", "pyspark/sbin/*", "pyarrow/include/*",
    "pyarrow/tests/*", "pyarrow/src/*", "pyarrow/libarrow_flight*", "numpy/*/tests/*", "../*",
)  # fmt: skip
"""Files that executors do not use, most of the size."""

KEPT_OF_BOTOCORE = (
    "_retry.json", "endpoints.json", "partitions.json", "sdk-default-configuration.json", "s3",
)  # fmt: skip


def packed_environment() -> Path:
    """The archive; it is made once for each state of the code and of the installed packages."""
    folder = Path(sys.prefix) / "cluster-environment"
    archive = folder / f"{_fingerprint()}.tar.gz"
    if not archive.exists():
        folder.mkdir(exist_ok=True)
        for old in folder.glob("*.tar.gz"):
            old.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory() as made:
            environment = Path(made) / "environment"
            _make(environment)
            packed = Path(made) / archive.name
            pack = 'tar -C "$1" -cf - . | gzip -1 >"$2"'
            subprocess.run(["sh", "-c", pack, "sh", str(environment), str(packed)], check=True)
            shutil.move(packed, archive)
    return archive


def _make(environment: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    packages = environment / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    for found in _distributions():
        for file in found.files or ():
            if not _is_left_out(file.as_posix()):
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(str(file.locate()), packages / file)
    for name in OURS:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, packages / name)
        else:
            (packages / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, packages / name)


def _is_left_out(path: str) -> bool:
    if path.startswith("botocore/data/"):
        return path.split("/")[2] not in KEPT_OF_BOTOCORE
    return any(fnmatch(path, pattern) for pattern in LEFT_OUT)


def _distributions() -> list[Distribution]:
    """PySpark, flip27-source and what it requires."""
    ours = Requirement(f"flip27-source[{','.join(EXTRAS)}]")
    return [installed("pyspark"), *required([ours, Requirement("py4j")]).values()]


def _fingerprint() -> str:
    marks = [f"{found.name} {found.version}" for found in _distributions()]
    files = [Path(__file__)]
    for name in OURS:
        files += (CHECKOUT / name).rglob("*.py") if (CHECKOUT / name).is_dir() else [CHECKOUT / name]
    digest = hashlib.sha256(repr(sorted(marks)).encode())
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
