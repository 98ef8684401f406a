"""Spark's two ways of writing checkpoints; most tests use the quick one."""

from __future__ import annotations

from flip27_source.spark.versions import QUICK_CHECKPOINT_FILES

_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
USUAL = {_SETTING: QUICK_CHECKPOINT_FILES.replace("FileSystem", "FileContext")}
"""The settings that Spark chooses by default: for tests that kill processes or fill disks."""

QUICK = {_SETTING: QUICK_CHECKPOINT_FILES}
"""On a local disk Hadoop's FileContext starts 30 processes (``readlink``, ``chmod``) in each batch, whereas
its FileSystem starts 6."""
