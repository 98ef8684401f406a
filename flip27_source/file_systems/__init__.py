"""File systems: what a path or URL means, and bytes that become durable.

Open `paths` first: the one place where a string becomes a local path, a URL or a file system (R14);
`durable_files` writes every file of the project (R13). Nothing here knows checkpoints, splits or Spark.
"""
