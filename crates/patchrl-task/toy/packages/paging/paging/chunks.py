"""Pieces of a list."""


def halves(items):
    mid = len(items) // 2
    return items[:mid], items[mid:]


def every(items, step):
    return items[::step]


def pairs(items):
    return list(zip(items, items[1:]))


def flatten(parts):
    out = []
    for part in parts:
        out += part
    return out


def last(items, count=1):
    return items[-count:]
