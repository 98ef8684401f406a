"""`flip27 new`: creates a project for a new source from a template. Open `command` first."""
