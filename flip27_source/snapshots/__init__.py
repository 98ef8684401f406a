"""Snapshots: the only place where the durable files of a lineage are written and read.

Open `file_names` first: it lists every path in a state location and the content of each file; then
`checkpoint_files`. This package does not decide what a checkpoint contains, and no other package writes to
a state location.
"""
