"""`flip27 savepoint`: creates, shows and deletes savepoints. The package `savepoints` does the work."""
