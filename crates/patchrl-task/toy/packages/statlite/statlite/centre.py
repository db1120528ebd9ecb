"""The middle of a list."""


def mean(xs):
    if not xs:
        return 0
    return sum(xs) / len(xs)


def median(xs):
    xs = sorted(xs)
    mid = len(xs) // 2
    if len(xs) % 2 == 1:
        return xs[mid]
    return (xs[mid - 1] + xs[mid]) / 2


def mode(xs):
    return max(xs, key=xs.count)


def midrange(xs):
    return (min(xs) + max(xs)) / 2
