"""Cells and moves on a grid of squares."""
