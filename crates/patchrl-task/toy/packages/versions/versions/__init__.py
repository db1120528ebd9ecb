"""Version numbers: read, compare, bump."""
