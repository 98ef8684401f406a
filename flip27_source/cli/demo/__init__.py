"""`flip27 demo`: streams files through two crashes. Open `program` first."""
