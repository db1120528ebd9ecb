"""Stacks and queues on plain lists. Nothing is changed in place."""
