"""The http enumerator: one split for each endpoint of a JSON API.

`readers.http_api` reads the pages of an endpoint.
"""
