"""Pages, counted from one."""


def page_count(items, size):
    return (items + size - 1) // size


def page(items, number, size):
    start = (number - 1) * size
    return items[start:start + size]


def has_next(number, pages):
    return number < pages


def has_previous(number):
    return number > 1


def page_of(index, size):
    return index // size + 1
