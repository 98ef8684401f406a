"""The csv reader: reads delimited text to the same rows as Spark's reader.

Open `reader` first. `columns` is the fast path: Arrow's parser reads the blocks that `dialect` and
`fast_path_checks` prove to give Spark's result. `records` splits everything else into fields, including
quoted fields over several lines. A file is cut into ranges at line ends, whatever the quotes; with
``multiLine`` it is not cut.
"""
