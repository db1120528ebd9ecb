"""Slugs, names and cases of words."""
