"""Lengths and speeds."""


def to_inches(feet, inches=0):
    return feet * 12 + inches


def to_feet(inches):
    return (inches // 12, inches % 12)


def to_metres(km, metres=0):
    return km * 1000 + metres


def speed(km, minutes):
    if minutes == 0:
        return 0
    return km * 60 / minutes


def laps(distance, track=400):
    return distance // track
