"""Lists directories, by system: local disk, fsspec, S3 by pages, web servers. No file is opened.

Open `choice` first.
"""
