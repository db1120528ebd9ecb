"""Points: (x, y)."""


def midpoint(p, q):
    return ((p[0] + q[0]) / 2, (p[1] + q[1]) / 2)


def distance(p, q):
    dx = q[0] - p[0]
    dy = q[1] - p[1]
    return (dx ** 2 + dy ** 2) ** 0.5


def steps(p, q):
    return abs(p[0] - q[0]) + abs(p[1] - q[1])


def mirror(p):
    x, y = p
    return (y, x)
