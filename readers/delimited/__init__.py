"""The csv reader: delimited text, with the rows that Spark's reader gives.

Open `reader` first. `columns` is the fast path, by Arrow's parser, for blocks that `dialect` and
`byte_proofs` show to mean the same to both; `records` cuts everything else, quotes over several lines
included.
"""
