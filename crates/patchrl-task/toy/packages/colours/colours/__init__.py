"""Colours as red, green and blue from 0 to 255."""
