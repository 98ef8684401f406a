"""Native reads: flip27 finds the files, Spark's own readers read them.

Open `batches` first: `native_batches` makes the foreachBatch function. Decisions about files are in
`planned_files` and `hadoop_paths`, which are pure. What must not live here: formats.
"""

from .batches import native_batches

__all__ = ["native_batches"]
