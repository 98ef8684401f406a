"""Schemas of files: `inference` from samples, `merging` of types and of hints, and `evolution`."""
