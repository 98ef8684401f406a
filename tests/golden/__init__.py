"""State as each released version stored it, and the stories that it was made by."""
