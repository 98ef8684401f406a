"""The recipes in deploy/."""
