"""Spark's two ways of writing checkpoints, of which most tests take the quick one."""

from __future__ import annotations

_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_PACKAGE = "org.apache.spark.sql.execution.streaming.checkpointing"

USUAL = {_SETTING: f"{_PACKAGE}.FileContextBasedCheckpointFileManager"}
"""Settings for what Spark chooses by itself: for tests that kill processes or fill disks."""

QUICK = {_SETTING: f"{_PACKAGE}.FileSystemBasedCheckpointFileManager"}
"""On a local disk Hadoop's FileContext starts 30 processes (``readlink``, ``chmod``) in each batch; its
FileSystem starts 6."""
