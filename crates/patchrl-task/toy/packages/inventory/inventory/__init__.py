"""Stock on shelves and orders against it."""
