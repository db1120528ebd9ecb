"""Roman numerals."""

VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}


def decode(text):
    total = 0
    last = 0
    for mark in reversed(text.upper()):
        value = VALUES[mark]
        if value < last:
            total -= value
        else:
            total += value
        last = max(last, value)
    return total


def is_numeral(text):
    return text != "" and all(c in VALUES for c in text)
