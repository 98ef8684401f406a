"""The mysql enumerator: tables of a MariaDB server as chunks of a snapshot and windows of its binary log.

Open `enumerator` first; the rules of chunks and windows are those of `flip27_source.snapshot_then_log`.
Code that reads rows or parses the log belongs to `readers.mysql`.
"""
