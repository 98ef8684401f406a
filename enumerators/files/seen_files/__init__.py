"""Where a file counts as seen: by a hash of its path (`by_hash`), or by the position reached (`by_cursor`).

Open `choice` first.
"""
