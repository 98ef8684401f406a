"""The settings that docs/deployment.md recommends, for both sides: ``--tuned``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyspark

from flip27_source.cli.tune.bytecode import add_bytecode, archives_of
from tests import checkpoint_files
from tests.spark_home import link_spark

from .cases import UNIX_SOCKETS

CONF = {
    **UNIX_SOCKETS,
    **checkpoint_files.QUICK,
    "spark.driver.defaultJavaOptions": "-Darrow.enable_unsafe_memory_access=true "
    "-Darrow.enable_null_check_for_get=false",
}


def spark_home(folder: Path) -> Path:
    """Create a SPARK_HOME in ``folder``: the installed one, as ``flip27 tune`` changes it."""
    home = folder / "spark"
    home.mkdir()
    link_spark(home)
    shutil.copytree(Path(pyspark.__file__).parent / "python" / "lib", home / "python" / "lib")
    for archive in archives_of(home):
        add_bytecode(archive)
    return home
