"""Amounts in cents."""


def to_cents(units, cents):
    return units * 100 + cents


def show(amount):
    units = amount // 100
    cents = amount % 100
    return f"{units}.{cents:02d}"


def discount(amount, percent):
    off = amount * percent // 100
    return max(amount - off, 0)


def with_tax(amount, percent):
    tax = amount * percent // 100
    return amount + tax
