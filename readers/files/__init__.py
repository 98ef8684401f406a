"""What all readers of files share: opening, ranges of lines, reading ahead, columns of the path.

Open `reader` first, then `input`; `line_blocks` gives every range of a file its own lines. No format is
known here.
"""
