"""Listing directories: local disk, fsspec, S3 by pages, web servers. Open `walk` first. Nothing is opened."""
