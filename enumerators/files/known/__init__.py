"""The strategies for known files: a hash of each file (`exact`), or the position reached (`cursors`).

Open `choice` first.
"""
