"""The postgres enumerator: tables of a PostgreSQL database as chunks of a snapshot and windows of the log.

Open `enumerator` first, then `assigner`, which decides what is read when. `chunk_transactions`
joins chunks and log.
Code that reads rows or parses the log belongs to `readers.postgres`.
"""
