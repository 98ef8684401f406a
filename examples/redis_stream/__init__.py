"""A Redis stream, read by ranges of entry ids."""
