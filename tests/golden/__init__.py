"""State as each released version has stored it, and the stories that create it."""
