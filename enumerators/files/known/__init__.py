"""Which files are known: by a hash of each (`exact`) or by how far they were read (`cursors`).

Open `choice` first.
"""
