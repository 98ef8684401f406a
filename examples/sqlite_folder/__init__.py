"""A folder of SQLite files, one split each."""
