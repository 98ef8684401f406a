"""File systems: the meaning of paths and URLs, and durable writes.

Open `paths` first: only there does a string become a local path, a URL or a file system (R14).
`durable_files` writes every file of the project (R13). Nothing here knows checkpoints, splits or Spark.
"""
