"""Sums and products."""


def dot(a, b):
    total = 0
    for x, y in zip(a, b):
        total += x * y
    return total


def add(a, b):
    return [x + y for x, y in zip(a, b)]


def scale(v, k):
    return [x * k for x in v]


def det2(m):
    (a, b), (c, d) = m
    return a * d - b * c


def trace(m):
    return sum(m[i][i] for i in range(len(m)))
