"""The tables of `format("flip27_state")`: stored state as rows.

Open `views` first: it declares the names, columns and rows of every view. `history` reads the documents
that the rows come from, while a query may be writing. Nothing here writes or runs code of authors.
"""
