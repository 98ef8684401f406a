"""Parses dates and times by Spark's rules and by Java's patterns. Open `formats` first.

`calendars` counts days and microseconds in any year and zone.
"""
