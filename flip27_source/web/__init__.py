"""The web: sessions and answers with bounds, for files on web servers and for JSON APIs.

Open `sessions` first. Which server may be asked and what is shown of a URL is decided in `file_systems`;
pages and records of an API belong to `readers.http_api`.
"""
