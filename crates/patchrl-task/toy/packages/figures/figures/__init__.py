"""Rectangles, boxes and points in the plane."""
