"""Where a file counts as seen: by a hash of its path (`exact`), or by the position reached (`cursors`).

Open `choice` first.
"""
