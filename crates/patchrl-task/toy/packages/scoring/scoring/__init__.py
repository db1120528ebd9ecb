"""Points, grades and rankings for games and tests."""
