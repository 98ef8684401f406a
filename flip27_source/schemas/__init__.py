"""Schemas: DDL and Arrow, and which schema a source has whose user gives none.

Open `source_schema` first: the reader's own schema, the recorded one, or one that is found out. What is in
the files of a format is for `readers` to say; nothing here opens a file of data.
"""
