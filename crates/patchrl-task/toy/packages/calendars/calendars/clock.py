"""Times of day."""


def to_minutes(hours, minutes):
    return hours * 60 + minutes


def to_clock(total):
    hours = total // 60 % 24
    minutes = total % 60
    return f"{hours:02d}:{minutes:02d}"


def half_day(hour):
    name = "am" if hour < 12 else "pm"
    hour = hour % 12
    if hour == 0:
        hour = 12
    return f"{hour} {name}"


def is_weekend(day):
    return day in (5, 6)
