"""Schemas of files: `inference` from samples, `merging`, `hints` from the user, and `evolution`."""
