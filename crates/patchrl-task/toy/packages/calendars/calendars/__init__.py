"""Leap years, weekdays and clock times."""
