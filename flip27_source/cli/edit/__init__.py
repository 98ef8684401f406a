"""`flip27 edit`: rewinding, skipping and replaying splits.

Open `commands` first; the edits are in `edits`.
"""
