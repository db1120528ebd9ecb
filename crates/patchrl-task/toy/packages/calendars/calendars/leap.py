"""Years and months."""


def is_leap(year):
    if year % 100 == 0:
        return year % 400 == 0
    return year % 4 == 0


def days_in_year(year):
    return 366 if is_leap(year) else 365


def days_in_month(year, month):
    if month == 2:
        return 29 if is_leap(year) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def quarter(month):
    return (month - 1) // 3 + 1
