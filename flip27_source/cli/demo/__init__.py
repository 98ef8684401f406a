"""`make demo` and `flip27 demo`: files streamed through two crashes. Open `program` first."""
