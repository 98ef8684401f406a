"""The http enumerator: one split for each endpoint of a JSON API.

Its pages are read by `readers.http_api`.
"""
