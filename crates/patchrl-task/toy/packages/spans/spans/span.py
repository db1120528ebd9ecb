"""One span: (start, end), end not included."""


def length(span):
    start, end = span
    return max(end - start, 0)


def contains(span, x):
    start, end = span
    return start <= x and x < end


def overlap(a, b):
    return a[0] < b[1] and b[0] < a[1]


def shift(span, by):
    start, end = span
    return (start + by, end + by)
