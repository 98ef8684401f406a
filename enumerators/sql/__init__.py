"""The sql enumerator: a table or a query, polled by columns that grow.

`readers.sql` reads the ranges. Connections, dialects and SQL texts live here, because both halves use them.
"""
