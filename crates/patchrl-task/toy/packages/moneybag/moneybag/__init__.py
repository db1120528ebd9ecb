"""Money as whole cents: show it, tax it, share it."""
