"""A few statistics over small lists."""
