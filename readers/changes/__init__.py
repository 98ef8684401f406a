"""Rows of changes, as the readers of logs of all databases make them: `rows` has what their formats
share, and `reader` what the readers do.

What must not live here: how one database writes its log.
"""
