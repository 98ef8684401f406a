"""A Redis stream, read in ranges of entry ids."""
