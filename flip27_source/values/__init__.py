"""Authors' values as JSON: splits, positions, states and events, by their declared types.

Open `stored_values` first: it refuses a value that could not be restored unchanged. This package does not
store the JSON.
"""
