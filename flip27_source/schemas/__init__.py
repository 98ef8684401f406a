"""Schemas: DDL and Arrow, and the schema of a source if the user gives none.

Open `source_schema` first: it chooses the reader's own schema, the recorded schema, or an inferred one.
`readers` infer the schema of files of a format; this package does not open data files.
"""
