"""The csv reader: reads CSV files to the same rows as Spark's reader.

Open `reader` first. `ranges_and_quotes` has the two kinds of rows: lines, whose quotes never reach beyond
the line, so that files are cut into ranges, and the records of whole files (``multiLine``). `arrow_columns`
is the fast path: Arrow's parser reads the blocks that it and `dialect` prove to give Spark's result.
`quoted_fields` splits everything else into fields.
"""
