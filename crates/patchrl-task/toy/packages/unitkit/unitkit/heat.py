"""Temperatures."""


def to_fahrenheit(c):
    return c * 9 / 5 + 32


def to_celsius(f):
    return (f - 32) * 5 / 9


def to_kelvin(c):
    return c + 273


def is_freezing(c):
    return c <= 0


def warmest(temps):
    best = temps[0]
    for t in temps[1:]:
        if t > best:
            best = t
    return best
