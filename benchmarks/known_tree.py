"""New files in a tree of very many known files: both sides list it, find the new files and read them.

Neither side reads the known files first, which would take Spark hours. flip27 is started once with
``includeExistingFiles=false``. For Spark, its log of seen files is written, in Spark's format, into the
checkpoint of a query that has read one file.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from .data import Dataset
from .rounds import RoundSpec
from .sessions import Pair

OPTIONS = {"recursiveFileLookup": "true", "includeExistingFiles": "false"}
"""The options of both sides; Spark's source does not know the second and ignores it."""


@contextmanager
def new_files(tree: Dataset, count: int) -> Iterator[None]:
    """Create ``count`` files of one line in the tree; delete them on exit."""
    folder = Path(tree.folder) / "new"
    folder.mkdir()
    files = [folder / f"part-{number:06d}.txt" for number in range(count)]
    try:
        for number, file in enumerate(files):
            file.write_text(f"{number}\n", encoding="utf-8")
        yield
    finally:
        for file in files:
            file.unlink(missing_ok=True)
        folder.rmdir()


def know_the_tree(pair: Pair, spec: RoundSpec, scratch: Path) -> tuple[Path, Path]:
    """Create a checkpoint of Spark and one of flip27 for which no file in the tree is new."""
    spark, flip27 = scratch / "spark", scratch / "flip27"
    with tempfile.TemporaryDirectory(dir=scratch) as one_file:
        (Path(one_file) / "first.txt").write_text("first\n", encoding="utf-8")
        pair.spark.run(msgspec.structs.replace(spec, folder=one_file, keep=str(spark)))
    _write_spark_log(spark / "sources" / "0" / "0", Path(spec.folder))
    pair.flip27.run(msgspec.structs.replace(spec, batches=0, keep=str(flip27)))
    return spark, flip27


def _write_spark_log(log: Path, tree: Path) -> None:
    """Write Spark's FileStreamSourceLog as if its first batch had read every file of the tree."""
    version = log.read_text(encoding="utf-8").partition("\n")[0]
    with log.open("w", encoding="utf-8") as lines:
        lines.write(version)
        for file in tree.rglob("*.txt"):
            entry = {
                "path": f"file://{file}",
                "timestamp": file.stat().st_mtime_ns // 1_000_000,
                "batchId": 0,
            }
            lines.write("\n" + json.dumps(entry, separators=(",", ":")))
    # Hadoop checks a file against the checksum file next to it, if there is one.
    log.with_name(f".{log.name}.crc").unlink()
