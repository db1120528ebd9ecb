"""Moves of a piece."""


def step(row, col, way):
    if way == "up":
        return (row - 1, col)
    if way == "down":
        return (row + 1, col)
    if way == "left":
        return (row, col - 1)
    return (row, col + 1)


def wrap(row, col, size):
    return (row % size, col % size)


def clamp(x, low, high):
    return max(low, min(x, high))


def is_near(a, b):
    return abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1
