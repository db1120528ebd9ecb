"""Intervals of numbers, as pairs of start and end."""
