"""Small sources, written from the documentation alone, each a folder that can be copied."""
