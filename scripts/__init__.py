"""Scripts that generate and check pages, pictures and notebooks, or test the wheel; not in the wheel."""
