"""Orders: a price and a quantity."""


def cost(price, quantity):
    if quantity >= 10:
        return price * quantity - price
    return price * quantity


def shipping(total):
    return 0 if total >= 50 else 5


def reorder(have, want):
    return max(want - have, 0)


def fill(have, want):
    sent = min(have, want)
    return (sent, want - sent)


def label(item, quantity):
    return str(quantity) + " x " + item.strip()
