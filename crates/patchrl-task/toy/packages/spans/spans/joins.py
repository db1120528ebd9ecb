"""Two spans at once."""


def common(a, b):
    start = max(a[0], b[0])
    end = min(a[1], b[1])
    if start >= end:
        return None
    return (start, end)


def hull(a, b):
    return (min(a[0], b[0]), max(a[1], b[1]))


def gap(a, b):
    if a[0] > b[0]:
        a, b = b, a
    return max(b[0] - a[1], 0)
