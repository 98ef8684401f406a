"""`flip27 new`: the project of an own source, written from a template. Open `command` first."""
