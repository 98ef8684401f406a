"""The sql reader: the rows of a range of cursors, as Arrow batches."""
