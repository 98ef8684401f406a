"""Spark's two ways of writing checkpoints; most tests use the quick one."""

from __future__ import annotations

from flip27_source.pytest_plugin import quick_checkpoint_files

_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
USUAL = {_SETTING: quick_checkpoint_files().replace("FileSystem", "FileContext")}
"""The settings that Spark chooses by default: for tests that kill processes or fill disks."""

QUICK = {_SETTING: quick_checkpoint_files()}
"""On a local disk Hadoop's FileContext starts 30 processes (``readlink``, ``chmod``) in each batch, whereas
its FileSystem starts 6."""
