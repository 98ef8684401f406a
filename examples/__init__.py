"""Small sources, written from the documentation alone. Each is a folder that can be copied."""
