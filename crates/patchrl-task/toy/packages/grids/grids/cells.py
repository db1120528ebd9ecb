"""Cells: (row, col), counted from zero."""


def inside(row, col, size):
    return 0 <= row < size and 0 <= col < size


def to_index(row, col, width):
    return row * width + col


def to_cell(index, width):
    return (index // width, index % width)


def is_edge(row, col, size):
    last = size - 1
    return row in (0, last) or col in (0, last)


def is_dark(row, col):
    return (row + col) % 2 == 1
