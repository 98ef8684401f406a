"""Values of authors as JSON: splits, positions, states and events by the types that they declare.

Open `stored_values` first: it refuses a value that would not come back as it was. Where the JSON is stored is
no matter of this package.
"""
