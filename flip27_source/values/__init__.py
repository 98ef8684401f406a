"""Authors' values as JSON: splits, positions, states and events, by their declared types.

Open `stored_values` first: it refuses a value that could not be restored unchanged. `merged_blocks` keeps the
blocks of bulk state few. This package stores nothing.
"""
