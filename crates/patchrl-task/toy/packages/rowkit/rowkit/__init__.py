"""Rows of comma-separated text."""
