"""Readers that come with flip27: they read splits, on executors.

One package or module for each format and system; `files` is what all readers of files share. A reader uses
the author's contract and the splits of its enumerator, never the coordinator.
"""
