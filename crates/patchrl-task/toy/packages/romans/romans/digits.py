"""Digits in other bases."""


def to_binary(n):
    if n == 0:
        return "0"
    out = ""
    while n > 0:
        out = str(n % 2) + out
        n = n // 2
    return out


def digit_sum(n):
    return sum(int(c) for c in str(abs(n)))


def ordinal(n):
    if n % 100 in (11, 12, 13):
        return f"{n}th"
    ends = {1: "st", 2: "nd", 3: "rd"}
    return str(n) + ends.get(n % 10, "th")
