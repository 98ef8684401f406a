"""The soak: queries are killed at random points, and in the end their rows are counted."""
