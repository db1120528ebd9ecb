"""Matrices as lists of rows."""
