"""The tables of `format("flip27_state")`: stored state as rows.

Open `views` first: names, columns and rows of every view, declared once; `history` reads the documents that
they are made of, while a query may be writing. Nothing here writes, and no code of authors is run.
"""
