"""Conversions between everyday units."""
