"""Creates an archive of Spark's classes, which a JVM maps at its start instead of loading them from jars.

``make test`` creates it once for the installed PySpark and Java. The tests start dozens of JVMs, and
with the archive each of them needs a third less CPU. The JVM itself checks that the archive matches:
without a matching archive it loads the jars as usual.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tests.spark_home import quick_spark_home

BRIEF_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Options of a JVM that lives for seconds or minutes: the quick compiler alone saves a third of its CPU time.

That compiler alone has room for 48 MB of code, which some hundred queries fill; then nothing is compiled.
"""

_MAKING_TIMEOUT_S = 600


def java_options() -> str:
    """The options for ``SPARK_SUBMIT_OPTS`` that name the archive; empty if there is none."""
    archive = archive_file()
    if archive is None or not archive.exists() or archive.stat().st_size == 0:
        return ""
    # Without these options the JVM would warn about an archive that does not match.
    return f'-Xshare:auto -Xlog:disable -Xlog:all=error:stderr "-XX:SharedArchiveFile={archive}"'


def archive_file() -> Path | None:
    """The path of the archive for this PySpark and this Java; None if one of them is missing."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    pyspark = find_spec("pyspark")
    if java is None or pyspark is None or pyspark.origin is None:
        return None
    program, version = Path(java).resolve(), Path(pyspark.origin).with_name("version.py")
    marks = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in (program, version)]
    # A JVM maps an archive only if the paths of its jars are the same.
    marks.append((str(quick_spark_home()), 0, 0))
    name = hashlib.sha256(repr(marks).encode()).hexdigest()[:16]
    return Path(sys.prefix) / "spark-classes" / f"{name}.jsa"


def make(archive: Path) -> None:
    """Run Spark once and archive the classes that it loaded.

    If that fails, an empty file is created, so that no later run tries again.
    """
    folder = archive.parent
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archive.exists():
            return
        for older in folder.glob("*.jsa"):
            older.unlink()
        print("Archiving Spark's classes, once: half a minute ...", flush=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / "archive"
            if not _run_spark(Path(scratch), f'{BRIEF_JVM} -Xlog:disable "-XX:ArchiveClassesAtExit={made}"'):
                print(
                    "Spark's classes cannot be archived: tests run without the archive and take longer",
                    flush=True,
                )
                made.touch()
            made.replace(archive)


def _run_spark(folder: Path, options: str) -> bool:
    settings = {
        "SPARK_HOME": str(quick_spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": options,
        "PYSPARK_PYTHON": sys.executable,
    }
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            [sys.executable, "-m", "scripts.class_archive_training", str(folder)],
            env=os.environ | settings, capture_output=True, timeout=_MAKING_TIMEOUT_S, check=False,
        )  # fmt: skip
        return done.returncode == 0 and (folder / "archive").exists()
    return False


if __name__ == "__main__":
    wanted = archive_file()
    if wanted is not None and not wanted.exists():
        make(wanted)
