"""The next version."""


def bump_patch(version):
    a, b, c = version
    return (a, b, c + 1)


def bump_minor(version):
    a, b, c = version
    return (a, b + 1, 0)


def newest(versions):
    best = versions[0]
    for v in versions:
        if v > best:
            best = v
    return best


def is_update(old, new):
    return new > old and new[0] == old[0]
