"""flip27's own readers, which read splits on executors.

Each format or system has one package or module; `files` has the code that all readers of files share. A
reader uses the author's contract and the splits of its enumerator, never the coordinator.
"""
