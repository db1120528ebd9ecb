"""Small helpers for words and lines of text."""
