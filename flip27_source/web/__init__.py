"""The web: sessions and bounded responses, for files on web servers and for JSON APIs.

Open `sessions` first. `file_systems` decides which servers may be reached and how URLs are shown; pages and
records of an API belong to `readers.http_api`.
"""
