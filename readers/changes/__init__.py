"""Rows of changes, as the readers of logs of all databases make them: `rows` has what their formats share.

What must not live here: how one database writes its log.
"""
