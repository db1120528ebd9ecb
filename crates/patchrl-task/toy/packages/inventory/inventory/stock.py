"""Stock: a dict of item counts."""


def count(stock, item):
    return stock.get(item, 0)


def in_stock(stock, item, needed=1):
    return count(stock, item) >= needed


def value(stock, prices):
    total = 0
    for item in stock:
        total += stock[item] * prices[item]
    return total


def low(stock, limit):
    return sorted(i for i in stock if stock[i] < limit)


def shelves(items, size):
    return (items + size - 1) // size
