"""The json reader: reads JSON lines and documents to the same rows as Spark's reader.

Open `reader` first, then `rows`, which the coordinator does not import. `layout_columns` and `columns` are
the fast paths for many lines at once. `values` reads one line by the rules of Spark's parser, when the fast
paths cannot prove their result.
"""
