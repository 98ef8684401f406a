"""A folder of SQLite files; each file is one split."""
