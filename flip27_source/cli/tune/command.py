"""``flip27 tune``: puts bytecode into Spark's archives of Python modules."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Annotated

import typer

from flip27_source.errors import OptionError

from ..commands import command, option
from ..rendering import Answer
from .bytecode import Archive, add_bytecode, archives_of, spark_home

group = typer.Typer()


@command(
    group,
    example="flip27 tune --spark-home /opt/spark",
    answers="an object: python, archives (path, modules, compiled: modules that have bytecode now, "
    "compiled_before, bytes, bytes_before).",
)
def tune(
    home: Annotated[
        Path | None,
        option(
            "--spark-home FOLDER", "The Spark distribution; by default SPARK_HOME, or the installed pyspark."
        ),
    ] = None,
    check: Annotated[bool, option("--check", "Change nothing; report which modules have bytecode.")] = False,
) -> Answer:
    """Put bytecode into pyspark.zip and py4j.zip, so that Spark's Python processes do not compile them.

    Run it with the Python that Spark starts, on every machine or in the image of the cluster, and again after
    an update of Spark or Python. A query then starts about a second sooner, and the first query of a session
    two to four seconds sooner.
    The source files stay in the archives, so other versions of Python can use them too.
    """
    home = spark_home() if home is None else home
    before = archives_of(home)
    if not before:
        raise OptionError(
            f"there is no archive in {home / 'python' / 'lib'}",
            remedy="name the folder of a Spark distribution: --spark-home",
        )
    after = before if check else [_complete(archive) for archive in before]
    python = ".".join(platform.python_version_tuple()[:2])
    return Answer(
        data={
            "python": python,
            "archives": [
                {
                    "path": str(now.path),
                    "modules": now.modules,
                    "compiled": now.compiled,
                    "compiled_before": then.compiled,
                    "bytes": now.size_bytes,
                    "bytes_before": then.size_bytes,
                }
                for then, now in zip(before, after, strict=True)
            ],
        },
        shown=[
            f"{now.path}: {now.compiled} of {now.modules} modules have bytecode of Python {python}"
            + (f"; {then.compiled} had it before" if now.compiled != then.compiled else "")
            for then, now in zip(before, after, strict=True)
        ],
    )


def _complete(archive: Archive) -> Archive:
    if archive.is_complete:
        return archive
    try:
        return add_bytecode(archive)
    except OSError as error:
        raise OptionError(
            f"{archive.path} cannot be replaced: {error.strerror or error}",
            remedy="run the command as the owner of the folder, or when the image is built",
        ) from None
