"""Colours: (red, green, blue)."""


def to_hex(colour):
    return "#" + "".join(f"{part:02x}" for part in colour)


def from_hex(text):
    text = text.lstrip("#")
    return tuple(int(text[i:i + 2], 16) for i in (0, 2, 4))


def limit(part):
    return max(0, min(part, 255))


def is_grey(colour):
    r, g, b = colour
    return r == g and g == b


def invert(colour):
    return tuple(255 - part for part in colour)
