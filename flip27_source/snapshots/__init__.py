"""Snapshots: the durable bytes of a lineage, written and read in one place.

Open `file_names` first: every path in a state location, with what lies there; then `checkpoint_files`.
Nothing here decides what a checkpoint holds, and no other package writes into a state location.
"""
