"""The settings that docs/deployment.md recommends, for both sides: ``--tuned``."""

from __future__ import annotations

import compileall
import re
import shutil
import tempfile
from pathlib import Path
from py_compile import PycInvalidationMode

import pyspark

from .cases import UNIX_SOCKETS

CONF = {
    **UNIX_SOCKETS,
    "spark.driver.defaultJavaOptions": "-Darrow.enable_unsafe_memory_access=true "
    "-Darrow.enable_null_check_for_get=false",
}


def spark_home(folder: Path) -> Path:
    """A SPARK_HOME below ``folder``: the installed one, but for a pyspark.zip that holds bytecode."""
    installed, home = Path(pyspark.__file__).parent, folder / "spark"
    libraries = home / "python" / "lib"
    libraries.mkdir(parents=True)
    for entry in installed.iterdir():
        if entry.name in {"bin", "jars", "sbin"}:
            (home / entry.name).symlink_to(entry)
    for entry in (installed / "python" / "lib").iterdir():
        if entry.name != "pyspark.zip":
            (libraries / entry.name).symlink_to(entry)
    with tempfile.TemporaryDirectory(dir=folder) as unpacked:
        shutil.unpack_archive(installed / "python" / "lib" / "pyspark.zip", unpacked)
        compileall.compile_dir(
            unpacked,
            rx=re.compile(r"/tests/"),
            quiet=2,
            legacy=True,
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        )
        shutil.make_archive(str(libraries / "pyspark"), "zip", unpacked)
    return home
