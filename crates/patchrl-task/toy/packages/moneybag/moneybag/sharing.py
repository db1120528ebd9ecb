"""Sharing a bill."""


def share(total, people):
    each = total // people
    rest = total % people
    return [each + 1] * rest + [each] * (people - rest)


def change(paid, price):
    if paid < price:
        raise ValueError("not enough")
    return paid - price


def coins(amount, values):
    count = 0
    for value in sorted(values, reverse=True):
        count += amount // value
        amount = amount % value
    return count
