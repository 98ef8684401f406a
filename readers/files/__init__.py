"""The code that all readers of files share: opening, ranges of lines, reading ahead, columns of the path.

Open `reader` first, then `input`; `line_blocks` finds the lines of a range. What must not live here:
formats.
"""
