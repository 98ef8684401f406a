"""`flip27 savepoint`: making, showing and deleting savepoints. The work is done in `savepoints`."""
