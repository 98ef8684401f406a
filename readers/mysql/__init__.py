"""The mysql reader: chunks of tables as they were, and windows of the binary log.

Open `reader` first; `log` finds the changes of rows in the events of the log, `row_images` and
`values` decode these.
What must not live here: decisions about batches and positions (`enumerators.mysql`).
"""
