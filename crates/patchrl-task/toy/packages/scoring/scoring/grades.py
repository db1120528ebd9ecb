"""Grades for tests."""


def percent(right, total):
    if total == 0:
        return 0
    return right * 100 // total


def passed(score, limit=50):
    return score >= limit


def grade(score):
    if score >= 90:
        return "A"
    if score >= 70:
        return "B"
    return "C"


def bonus(score, extra):
    return min(score + extra, 100)
