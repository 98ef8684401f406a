"""What makes and checks the pages, pictures and notebooks; nothing of it is in the wheel."""
