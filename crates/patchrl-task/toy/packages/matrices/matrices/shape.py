"""Size and parts of a matrix."""


def size(m):
    return (len(m), len(m[0]))


def is_square(m):
    rows, cols = size(m)
    return rows == cols


def column(m, j):
    return [row[j] for row in m]


def diagonal(m):
    n = min(size(m))
    return [m[i][i] for i in range(n)]


def corner(m):
    return m[-1][-1]
