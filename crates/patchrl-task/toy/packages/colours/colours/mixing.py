"""Mixing colours."""


def mix(a, b):
    return tuple((x + y) // 2 for x, y in zip(a, b))


def brightness(colour):
    return sum(colour) // 3


def lighter(a, b):
    if brightness(a) >= brightness(b):
        return a
    return b


def is_dark(colour, limit=100):
    return brightness(colour) < limit


def strongest(colour):
    names = ["red", "green", "blue"]
    return names[colour.index(max(colour))]
