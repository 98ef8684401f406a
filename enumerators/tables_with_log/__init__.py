"""What enumerators of tables and the log of their changes have in common: `postgres` and `mysql`.

Open `enumerator` first; the rules of chunks and windows are those of `flip27_source.snapshot_then_log`.
Statements and names of a particular server belong to its own package.
"""
