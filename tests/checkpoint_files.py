"""Spark's two ways of writing checkpoints; most tests use the quick one."""

from __future__ import annotations

_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_PACKAGE = "org.apache.spark.sql.execution.streaming.checkpointing"

USUAL = {_SETTING: f"{_PACKAGE}.FileContextBasedCheckpointFileManager"}
"""The settings that Spark chooses by default: for tests that kill processes or fill disks."""

QUICK = {_SETTING: f"{_PACKAGE}.FileSystemBasedCheckpointFileManager"}
"""On a local disk Hadoop's FileContext starts 30 processes (``readlink``, ``chmod``) in each batch, whereas
its FileSystem starts 6."""
