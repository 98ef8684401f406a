"""Lists directories: local disk, fsspec, S3 by pages, web servers. Open `walk` first. No file is opened."""
