"""The json reader: lines and documents of JSON, with the rows that Spark's reader gives.

Open `reader` first. `layout_columns` and `columns` are the fast paths for many lines at once; `values`
reads one line by the rules of Spark's parser, for what they cannot prove.
"""
