"""Rectangles: width and height."""


def area(width, height):
    return width * height


def perimeter(width, height):
    return 2 * (width + height)


def is_square(width, height):
    return width == height and width > 0


def fits(inner, outer):
    return inner[0] <= outer[0] and inner[1] <= outer[1]


def grow(rect, by):
    width, height = rect
    return (width + by, height + by)
