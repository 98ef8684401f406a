"""Dates and times in texts, by Spark's rules and by Java's patterns. Open `formats` first."""
