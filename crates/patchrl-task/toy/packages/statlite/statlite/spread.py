"""How far apart values are."""


def extent(xs):
    return max(xs) - min(xs)


def variance(xs):
    m = sum(xs) / len(xs)
    return sum((x - m) ** 2 for x in xs) / len(xs)


def above(xs, limit):
    count = 0
    for x in xs:
        if x > limit:
            count += 1
    return count


def rescale(xs):
    low, high = min(xs), max(xs)
    return [(x - low) / (high - low) for x in xs]
